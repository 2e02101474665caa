"""Published files by address: downloaded once, kept in a cache, found again by name."""

import contextlib
import hashlib
import os
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from vit_jax.data.download import fetch

_SERVER = "https://storage.googleapis.com/"
# Buckets that everybody may read, without an account.
_PUBLIC = ("vit_models", "mixer_models", "big_vision")
_AUGREG = "gs://vit_models/augreg/"

# For each model: the pre-training on ImageNet-21k, then the fine-tuning on ImageNet at
# 224 and 384 pixels, with the rates that did best. Source: Steiner et al. 2021, arXiv
# 2106.10270, table 3, by the names of the files.
_PRETRAINED = {
    "Ti/16": ("Ti_16", "none", "0.03", "0.0"),
    "S/32": ("S_32", "light1", "0.03", "0.0"),
    "S/16": ("S_16", "light1", "0.03", "0.0"),
    "B/32": ("B_32", "medium1", "0.03", "0.0"),
    "B/16": ("B_16", "medium1", "0.1", "0.0"),
    "B/8": ("B_8", "medium1", "0.1", "0.0"),
    "L/16": ("L_16", "medium1", "0.1", "0.1"),
    "R+Ti/16": ("R_Ti_16", "none", "0.03", "0.0"),
    "R26+S/32": ("R26_S_32", "medium2", "0.03", "0.0"),
    "R50+L/32": ("R50_L_32", "medium2", "0.1", "0.0"),
}
_FINETUNED = {
    "Ti/16": {224: "0.03", 384: "0.03"},
    "S/32": {224: "0.03", 384: "0.03"},
    "S/16": {224: "0.03", 384: "0.03"},
    "B/32": {224: "0.03"},
    "B/16": {224: "0.01", 384: "0.01"},
    "B/8": {224: "0.01"},
    "L/16": {224: "0.01", 384: "0.01"},
    "R+Ti/16": {224: "0.03", 384: "0.03"},
    "R26+S/32": {384: "0.03"},
    "R50+L/32": {384: "0.01"},
}


_BUCKETS = "gs://vit_models/"
# The first release's. Source: Dosovitskiy et al. 2021, arXiv 2010.11929; the listing in
# google-research/vision_transformer, README.
_IMAGENET21K = (
    "B/8",
    "B/16",
    "B/32",
    "L/16",
    "L/32",
    "H/14",
    "R50+B/16",
    "R26+B/32",
    "R50+L/32",
)
_IMAGENET2012 = ("B/16", "B/32", "L/16", "L/32", "R50+B/16")
# Trained from scratch on ImageNet. Sources: Chen et al. 2022, arXiv 2106.01548; Zhuang
# et al. 2022, arXiv 2203.08065.
_SHARPNESS = {
    "sam": ("B/32", "B/16"),
    "gsam": ("S/32", "S/16", "B/32", "B/16"),
}
COLLECTIONS = ("augreg", "imagenet21k", "imagenet21k+imagenet2012", "sam", "gsam")
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def _augreg() -> Mapping[str, str]:
    table = {}
    for name, (stem, augmentation, decay, noise) in _PRETRAINED.items():
        file = (
            f"{stem}-i21k-300ep-lr_0.001-aug_{augmentation}-wd_{decay}-do_{noise}"
            f"-sd_{noise}"
        )
        table[f"augreg:{name}"] = f"{_AUGREG}{file}.npz"
        for size, rate in _FINETUNED[name].items():
            table[f"augreg:{name}@{size}"] = (
                f"{_AUGREG}{file}--imagenet2012-steps_20k-lr_{rate}-res_{size}.npz"
            )
    return table


def _plain() -> Mapping[str, str]:
    """The files of the other buckets, which have a model's name and no more.

    Those of imagenet21k+imagenet2012 are fine-tuned, at 384 pixels but for one.
    """
    table = {
        f"imagenet21k:{name}": f"{_BUCKETS}imagenet21k/{_stem(name)}.npz"
        for name in _IMAGENET21K
    }
    folder = "imagenet21k+imagenet2012"
    table |= {
        f"{folder}:{name}": f"{_BUCKETS}{folder}/{_stem(name)}.npz"
        for name in _IMAGENET2012
    }
    for bucket, names in _SHARPNESS.items():
        table |= {
            f"{bucket}:{name}": f"{_BUCKETS}{bucket}/{_stem(name)}.npz"
            for name in names
        }
    return table


def _stem(name: str) -> str:
    """A file's name: "R50+B/16" is R50+ViT-B_16."""
    backbone, plus, size = name.rpartition("+")
    return f"{backbone}{plus}ViT-{size.replace('/', '_')}"


# Name -> address. "augreg:B/16" is pre-trained on ImageNet-21k alone.
PUBLISHED: Mapping[str, str] = MappingProxyType({**_augreg(), **_plain()})


def is_published(address: str) -> bool:
    """Whether it names a file to be downloaded: a name, a link or a public bucket's."""
    names = tuple(f"{name}:" for name in COLLECTIONS)
    return address.startswith((*names, "https://", "http://")) or any(
        address.startswith(f"gs://{bucket}/") for bucket in _PUBLIC
    )


def local_file(
    address: str,
    *,
    cache: str | os.PathLike | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Path:
    """The file of an address on this machine, downloaded where it is not there yet.

    Args:
      address: a name of `PUBLISHED`, an https:// link, or gs:// in a public bucket.
      cache: folder of downloads; None: what VIT_JAX_CACHE names, else
        ~/.cache/vit_jax.
      progress: called with bytes that are there and bytes in all, None if unknown;
        None: a bar on a terminal.

    Raises:
      FileNotFoundError: it can't be downloaded; says which file to put where.
      ValueError: the name is not published, or the link is not encrypted.
    """
    link = PUBLISHED.get(address, address)
    if link.partition(":")[0] in COLLECTIONS:
        names = ", ".join(PUBLISHED)
        raise ValueError(f"{address} is not published; there are: {names}.")
    host = urllib.parse.urlsplit(link).hostname
    if link.startswith("http://") and host not in _THIS_MACHINE:
        raise ValueError(
            f"{address} would come over a line that anybody may change; give an "
            "https:// link, or download it and check its digest yourself."
        )
    link = link.replace("gs://", _SERVER, 1) if link.startswith("gs://") else link
    # Names have a "+" in them, which is a space in some links.
    url = urllib.parse.quote(link, safe=":/?&=%")
    folder = Path(cache or os.environ.get("VIT_JAX_CACHE", "~/.cache/vit_jax"))
    name = os.path.basename(urllib.parse.urlsplit(link).path)
    digest = hashlib.sha256(link.encode()).hexdigest()[:8]
    file = folder.expanduser() / f"{digest}-{name}"
    if progress is not None:
        fetch(url, file, None, progress=progress)
        return file
    with contextlib.ExitStack() as stack:
        fetch(url, file, None, progress=_bar(stack, name))
    return file


def _bar(stack: contextlib.ExitStack, name: str) -> Callable[[int, int | None], None]:
    """Moves a bar on standard error, which appears with the first byte."""
    from tqdm import tqdm

    bars: list[tqdm] = []

    def progress(there: int, total: int | None) -> None:
        if not bars:
            words = {"unit": "B", "unit_scale": True, "leave": False, "disable": None}
            bars.append(stack.enter_context(tqdm(desc=name, total=total, **words)))
        bars[0].total = total
        bars[0].update(there - bars[0].n)

    return progress
