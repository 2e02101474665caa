"""Published archives as sources: ImageNet-2012, CIFAR, Oxford Pets and Flowers.

Nothing is unpacked: plain tar files are read where their members lie. Only a gzipped
tar is unzipped once, to the scratch folder that the caller gives.
"""

import contextlib
import dataclasses
import gzip
import io
import shutil
import struct
import tarfile
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import scipy.io
from scipy.io.matlab import MatReadError

from vit_jax.data.bundled import ArraySource
from vit_jax.data.labels import class_list, class_order
from vit_jax.data.sources import Source

_DAMAGE = (
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    ValueError,
    IndexError,
    TypeError,
    struct.error,
    MatReadError,
)


@dataclasses.dataclass(frozen=True)
class Archive:
    """A file that its publisher offers, and its MD5. Without `url` one must log in."""

    name: str
    md5: str
    url: str = ""


@dataclasses.dataclass(frozen=True)
class Published:
    """A set: its archives, its splits, and how a split is opened.

    `open_split(folder, scratch, split)` reads the archives in `folder`.
    """

    archives: tuple[Archive, ...]
    splits: tuple[str, ...]
    open_split: Callable[[Path, Path, str], Source]


class TarSource:
    """Image files inside plain tar files, read where they lie."""

    def __init__(
        self,
        files: list[Path],
        members: list[tuple[int, int, int, int, str]],
        class_names: tuple[str, ...],
    ):
        self.class_names = class_names
        self._files = [str(file) for file in files]
        self._places = np.array([member[:3] for member in members], np.int64)
        self._labels = np.array([member[3] for member in members], np.int32)
        self._names = [member[4] for member in members]

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> tuple[bytes, int, str]:
        file, offset, size = self._places[index].tolist()
        with open(self._files[file], "rb") as opened:
            opened.seek(offset)
            data = opened.read(size)
        return data, int(self._labels[index]), self.name(index)

    def name(self, index: int) -> str:
        return self._names[index]

    def labels(self) -> np.ndarray:
        return self._labels


def open_imagenet(folder: Path, scratch: Path, split: str) -> TarSource:
    """ImageNet-2012 from its own archives; classes are WordNet ids in byte order, as
    every published model has them."""
    ids = _imagenet_ids(folder / "ILSVRC2012_devkit_t12.tar.gz")
    class_names = class_order(set(ids.values()))
    labels = {name: number for number, name in enumerate(class_names)}
    if split == "train":
        file = folder / "ILSVRC2012_img_train.tar"
        with _damage_named(file):
            members = [
                (0, offset, size, labels[Path(outer).stem], name)
                for outer, start, _ in _members(file)
                for name, offset, size in _members(file, start)
            ]
    else:
        file = folder / "ILSVRC2012_img_val.tar"
        truth = _imagenet_truth(folder / "ILSVRC2012_devkit_t12.tar.gz")
        with _damage_named(file):
            members = [
                (0, offset, size, labels[ids[number]], name)
                for number, (name, offset, size) in zip(
                    truth, sorted(_members(file)), strict=True
                )
            ]
    return TarSource([file], members, class_names)


def open_pets(folder: Path, scratch: Path, split: str) -> TarSource:
    """Oxford-IIIT Pets, 37 breeds; train is the authors' trainval."""
    lists = {"train": "annotations/trainval.txt", "test": "annotations/test.txt"}
    lines = _text(folder / "annotations.tar.gz", lists[split]).splitlines()
    rows = [line.split() for line in lines if line and line[0] != "#"]
    breeds = {int(row[1]): row[0].rsplit("_", 1)[0] for row in rows}
    class_names = class_list(breeds[key] for key in sorted(breeds))
    images = _plain_tar(folder / "images.tar.gz", scratch)
    with _damage_named(folder / "images.tar.gz"):
        places = _places(images)
        members = [(0, *places[row[0]], int(row[1]) - 1, row[0]) for row in rows]
    return TarSource([images], members, class_names)


def open_flowers(folder: Path, scratch: Path, split: str) -> TarSource:
    """Oxford Flowers, 102 classes, which have numbers for names."""
    keys = {"train": "trnid", "val": "valid", "test": "tstid"}
    numbers = _table(folder / "setid.mat", keys[split])
    labels = _table(folder / "imagelabels.mat", "labels")
    images = _plain_tar(folder / "102flowers.tgz", scratch)
    with _damage_named(folder / "102flowers.tgz"):
        places = _places(images)
        members = [
            (0, *places[f"image_{number:05}"], int(labels[number - 1]) - 1, str(number))
            for number in numbers
        ]
    return TarSource([images], members, tuple(str(n) for n in range(1, 103)))


def open_cifar(
    archive: str, classes: str, label_bytes: int, folder: Path, split: str
) -> ArraySource:
    """CIFAR from the binary version; its last label byte is the class."""
    with _damage_named(folder / archive), tarfile.open(folder / archive) as tar:
        files = {Path(member.name).name: member for member in tar if member.isfile()}
        names = tar.extractfile(files[classes]).read().decode().split()
        wanted = sorted(
            name
            for name in files
            if name.endswith(".bin") and name.startswith("test") == (split == "test")
        )
        data = b"".join(tar.extractfile(files[name]).read() for name in wanted)
        rows = np.frombuffer(data, np.uint8).reshape(-1, label_bytes + 3 * 32 * 32)
    images = rows[:, label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    labels = rows[:, label_bytes - 1]
    return ArraySource(images, labels, class_list(names), f"{archive} {split}")


def _cifar10(folder: Path, scratch: Path, split: str) -> ArraySource:
    return open_cifar("cifar-10-binary.tar.gz", "batches.meta.txt", 1, folder, split)


def _cifar100(folder: Path, scratch: Path, split: str) -> ArraySource:
    archive = "cifar-100-binary.tar.gz"
    return open_cifar(archive, "fine_label_names.txt", 2, folder, split)


_OXFORD = "https://www.robots.ox.ac.uk/~vgg/data"
_TORONTO = "https://www.cs.toronto.edu/~kriz"

# CIFAR's digests are those on its page; no other source of them is at hand to compare,
# since torchvision takes the Python version and TFDS has SHA-256.
PUBLISHED = {
    "imagenet2012": Published(
        (
            Archive("ILSVRC2012_img_train.tar", "1d675b47d978889d74fa0da5fadfb00e"),
            Archive("ILSVRC2012_img_val.tar", "29b22e2961454d5413ddabcf34fc5622"),
            Archive("ILSVRC2012_devkit_t12.tar.gz", "fa75699e90414af021442c21a62c3abf"),
        ),
        ("train", "validation"),
        open_imagenet,
    ),
    "cifar10": Published(
        (
            Archive(
                "cifar-10-binary.tar.gz",
                "c32a1d4ab5d03f1284b67883e8d87530",
                f"{_TORONTO}/cifar-10-binary.tar.gz",
            ),
        ),
        ("train", "test"),
        _cifar10,
    ),
    "cifar100": Published(
        (
            Archive(
                "cifar-100-binary.tar.gz",
                "03b5dce01913d631647c71ecec9e9cb8",
                f"{_TORONTO}/cifar-100-binary.tar.gz",
            ),
        ),
        ("train", "test"),
        _cifar100,
    ),
    "pets": Published(
        (
            Archive(
                "images.tar.gz",
                "5c4f3ee8e5d25df40f4fd59a7f44e54c",
                f"{_OXFORD}/pets/data/images.tar.gz",
            ),
            Archive(
                "annotations.tar.gz",
                "95a8c909bbe2e81eed6a22bccdf3f68f",
                f"{_OXFORD}/pets/data/annotations.tar.gz",
            ),
        ),
        ("train", "test"),
        open_pets,
    ),
    "flowers102": Published(
        (
            Archive(
                "102flowers.tgz",
                "52808999861908f626f3c1f4e79d11fa",
                f"{_OXFORD}/flowers/102/102flowers.tgz",
            ),
            Archive(
                "imagelabels.mat",
                "e0620be6f572b9609742df49c70aed4d",
                f"{_OXFORD}/flowers/102/imagelabels.mat",
            ),
            Archive(
                "setid.mat",
                "a5357ecc9cb78c4bef273ce3793fc85c",
                f"{_OXFORD}/flowers/102/setid.mat",
            ),
        ),
        ("train", "val", "test"),
        open_flowers,
    ),
}


def _members(file: Path, start: int = 0) -> Iterator[tuple[str, int, int]]:
    """(name, offset, size) of each file in a plain tar that begins at `start`."""
    with open(file, "rb") as opened:
        opened.seek(start)
        with tarfile.open(fileobj=opened, mode="r:") as tar:
            for member in tar:
                if member.isfile():
                    yield member.name, member.offset_data, member.size


def _places(tar: Path) -> dict[str, tuple[int, int]]:
    """Name without folder and suffix -> (offset, size) of each file in a plain tar."""
    return {Path(name).stem: (offset, size) for name, offset, size in _members(tar)}


def _table(file: Path, key: str) -> np.ndarray:
    """A table of numbers in a MATLAB file, as one row."""
    with _damage_named(file):
        return scipy.io.loadmat(file)[key].ravel()


def _plain_tar(file: Path, scratch: Path) -> Path:
    """A gzipped tar, unzipped once."""
    plain = scratch / f"{file.name}.tar"
    if not plain.exists():
        scratch.mkdir(parents=True, exist_ok=True)
        fresh = scratch / f"{file.name}.{uuid.uuid4().hex}.tmp"
        with (
            _damage_named(file),
            gzip.open(file, "rb") as zipped,
            open(fresh, "wb") as output,
        ):
            shutil.copyfileobj(zipped, output, 2**20)
        fresh.replace(plain)
    return plain


def _text(archive: Path, member: str) -> str:
    with _damage_named(archive), tarfile.open(archive) as tar:
        return tar.extractfile(member).read().decode()


def _imagenet_ids(devkit: Path) -> dict[int, str]:
    """ILSVRC number 1 .. 1000 -> WordNet id, from the kit's meta.mat."""
    with _damage_named(devkit), tarfile.open(devkit) as tar:
        data = tar.extractfile("ILSVRC2012_devkit_t12/data/meta.mat").read()
        synsets = scipy.io.loadmat(io.BytesIO(data), squeeze_me=True)["synsets"]
        leaves = [row for row in synsets if row["num_children"] == 0]
        return {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in leaves}


def _imagenet_truth(devkit: Path) -> list[int]:
    """The ILSVRC number of each validation image, in the order of their names."""
    member = "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"
    text = _text(devkit, member)
    with _damage_named(devkit):
        return [int(line) for line in text.split()]


@contextlib.contextmanager
def _damage_named(file: Path) -> Iterator[None]:
    """Turns what a damaged archive makes readers raise into one sentence.

    Raises:
      ValueError: the file is damaged, or lacks what its publisher put there.
    """
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{file} is damaged: it lacks {error}.") from error
    except _DAMAGE as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"{file} is damaged: {reason}.") from error
