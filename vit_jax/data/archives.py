"""Published archives as sources: ImageNet-2012, CIFAR, Oxford Pets and Flowers.

Nothing is unpacked: plain tar files are read where their members lie. Only a gzipped
tar is unzipped once, to the scratch folder that the caller gives.
"""

import dataclasses
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.io

from vit_jax.data.bundled import ArraySource
from vit_jax.data.labels import class_list, class_order
from vit_jax.data.sources import Source
from vit_jax.data.tars import (
    TarSource,
    damage_named,
    plain_tar,
    read_text,
    tar_members,
    tar_places,
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


def open_imagenet(folder: Path, scratch: Path, split: str) -> TarSource:
    """ImageNet-2012 from its own archives; classes are WordNet ids in byte order, as
    every published model has them."""
    ids = _imagenet_ids(folder / "ILSVRC2012_devkit_t12.tar.gz")
    class_names = class_order(set(ids.values()))
    labels = {name: number for number, name in enumerate(class_names)}
    if split == "train":
        file = folder / "ILSVRC2012_img_train.tar"
        with damage_named(file):
            members = [
                (0, offset, size, labels[Path(outer).stem], name)
                for outer, start, _ in tar_members(file)
                for name, offset, size in tar_members(file, start)
            ]
    else:
        file = folder / "ILSVRC2012_img_val.tar"
        truth = _imagenet_truth(folder / "ILSVRC2012_devkit_t12.tar.gz")
        with damage_named(file):
            members = [
                (0, offset, size, labels[ids[number]], name)
                for number, (name, offset, size) in zip(
                    truth, sorted(tar_members(file)), strict=True
                )
            ]
    return TarSource([file], members, class_names)


def open_pets(folder: Path, scratch: Path, split: str) -> TarSource:
    """Oxford-IIIT Pets, 37 breeds; train is the authors' trainval."""
    lists = {"train": "annotations/trainval.txt", "test": "annotations/test.txt"}
    lines = read_text(folder / "annotations.tar.gz", lists[split]).splitlines()
    rows = [line.split() for line in lines if line and line[0] != "#"]
    breeds = {int(row[1]): row[0].rsplit("_", 1)[0] for row in rows}
    class_names = class_list(breeds[key] for key in sorted(breeds))
    images = plain_tar(folder / "images.tar.gz", scratch)
    with damage_named(folder / "images.tar.gz"):
        places = tar_places(images)
        members = [(0, *places[row[0]], int(row[1]) - 1, row[0]) for row in rows]
    return TarSource([images], members, class_names)


def open_flowers(folder: Path, scratch: Path, split: str) -> TarSource:
    """Oxford Flowers, 102 classes, which have numbers for names."""
    keys = {"train": "trnid", "val": "valid", "test": "tstid"}
    numbers = _table(folder / "setid.mat", keys[split])
    labels = _table(folder / "imagelabels.mat", "labels")
    images = plain_tar(folder / "102flowers.tgz", scratch)
    with damage_named(folder / "102flowers.tgz"):
        places = tar_places(images)
        members = [
            (0, *places[f"image_{number:05}"], int(labels[number - 1]) - 1, str(number))
            for number in numbers
        ]
    return TarSource([images], members, tuple(str(n) for n in range(1, 103)))


def open_cifar(
    archive: str, classes: str, label_bytes: int, folder: Path, split: str
) -> ArraySource:
    """CIFAR from the binary version; its last label byte is the class."""
    with damage_named(folder / archive), tarfile.open(folder / archive) as tar:
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


def _table(file: Path, key: str) -> np.ndarray:
    """A table of numbers in a MATLAB file, as one row."""
    with damage_named(file):
        return scipy.io.loadmat(file)[key].ravel()


def _imagenet_ids(devkit: Path) -> dict[int, str]:
    """ILSVRC number 1 .. 1000 -> WordNet id, from the kit's meta.mat."""
    with damage_named(devkit), tarfile.open(devkit) as tar:
        data = tar.extractfile("ILSVRC2012_devkit_t12/data/meta.mat").read()
        synsets = scipy.io.loadmat(io.BytesIO(data), squeeze_me=True)["synsets"]
        leaves = [row for row in synsets if row["num_children"] == 0]
        return {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in leaves}


def _imagenet_truth(devkit: Path) -> list[int]:
    """The ILSVRC number of each validation image, in the order of their names."""
    member = "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"
    text = read_text(devkit, member)
    with damage_named(devkit):
        return [int(line) for line in text.split()]
