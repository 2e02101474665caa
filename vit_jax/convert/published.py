"""Published files by address: downloaded once, kept in a cache, found again by name."""

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
    return MappingProxyType(table)


# Name -> address. "augreg:B/16" is pre-trained on ImageNet-21k alone.
PUBLISHED = _augreg()


def is_published(address: str) -> bool:
    """Whether it names a file to be downloaded: a name, a link or a public bucket's."""
    return address.startswith(("augreg:", "https://", "http://")) or any(
        address.startswith(f"gs://{bucket}/") for bucket in _PUBLIC
    )


def local_file(
    address: str,
    *,
    cache: str | os.PathLike | None = None,
    progress: Callable[[int, int | None], None] = lambda there, total: None,
) -> Path:
    """The file of an address on this machine, downloaded where it is not there yet.

    Args:
      address: a name of `PUBLISHED`, an https:// link, or gs:// in a public bucket.
      cache: folder of downloads; None: what VIT_JAX_CACHE names, else
        ~/.cache/vit_jax.
      progress: called with bytes that are there and bytes in all, None if unknown.

    Raises:
      FileNotFoundError: it can't be downloaded; says which file to put where.
      ValueError: the name is not published.
    """
    link = PUBLISHED.get(address, address)
    if link.startswith("augreg:"):
        names = ", ".join(PUBLISHED)
        raise ValueError(f"{address} is not published; there are: {names}.")
    link = link.replace("gs://", _SERVER, 1) if link.startswith("gs://") else link
    # Names have a "+" in them, which is a space in some links.
    url = urllib.parse.quote(link, safe=":/?&=%")
    folder = Path(cache or os.environ.get("VIT_JAX_CACHE", "~/.cache/vit_jax"))
    name = os.path.basename(urllib.parse.urlsplit(link).path)
    digest = hashlib.sha256(link.encode()).hexdigest()[:8]
    file = folder.expanduser() / f"{digest}-{name}"
    fetch(url, file, None, progress=progress)
    return file
