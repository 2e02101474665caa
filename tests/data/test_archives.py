"""Tests vit_jax/data/archives.py on small archives of the publishers' layouts."""

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from PIL import Image

from tests.data.pictures import encoded, smooth_pixels
from vit_jax.data.archives import PUBLISHED
from vit_jax.data.decode import decode


def tar_of(files: dict[str, bytes]) -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return output.getvalue()


def photo(seed: int, kind: str = "JPEG", mode: str = "RGB") -> bytes:
    return encoded(Image.fromarray(smooth_pixels(20, 30, seed)).convert(mode), kind)


def matlab(**variables) -> bytes:
    output = io.BytesIO()
    scipy.io.savemat(output, variables)
    return output.getvalue()


def opened(name: str, folder: Path, split: str):
    return PUBLISHED[name].open_split(folder, folder / "scratch", split)


@pytest.fixture
def imagenet(tmp_path):
    """Three classes whose ILSVRC numbers don't follow their ids, and a parent."""
    numbers = {"n03": 1, "n01": 2, "n02": 3, "n99": 1001}
    synsets = np.array(
        [(number, name, 3 if name == "n99" else 0) for name, number in numbers.items()],
        dtype=[("ILSVRC2012_ID", "O"), ("WNID", "O"), ("num_children", "O")],
    )
    kit = "ILSVRC2012_devkit_t12/data"
    devkit = tar_of(
        {
            f"{kit}/meta.mat": matlab(synsets=synsets),
            f"{kit}/ILSVRC2012_validation_ground_truth.txt": b"3\n1\n2\n1\n",
        }
    )
    (tmp_path / "ILSVRC2012_devkit_t12.tar.gz").write_bytes(gzip.compress(devkit))
    inner = {
        "n03.tar": tar_of({"n03_1.JPEG": photo(1), "n03_2.JPEG": photo(2, "PNG")}),
        "n01.tar": tar_of({"n01_1.JPEG": photo(3, mode="CMYK")}),
        "n02.tar": tar_of({"n02_1.JPEG": photo(4)}),
    }
    (tmp_path / "ILSVRC2012_img_train.tar").write_bytes(tar_of(inner))
    names = [f"ILSVRC2012_val_{number:08}.JPEG" for number in (2, 1, 4, 3)]
    validation = {name: photo(10 + int(name[-6])) for name in names}
    (tmp_path / "ILSVRC2012_img_val.tar").write_bytes(tar_of(validation))
    return tmp_path


def test_imagenet_train_is_read_inside_the_tar_of_tars(imagenet):
    source = opened("imagenet2012", imagenet, "train")
    assert source.class_names == ("n01", "n02", "n03")
    examples = {source[index][2]: source[index] for index in range(len(source))}
    assert {name: label for name, (_, label, _) in examples.items()} == {
        "n03_1.JPEG": 2,
        "n03_2.JPEG": 2,
        "n01_1.JPEG": 0,
        "n02_1.JPEG": 1,
    }
    assert examples["n02_1.JPEG"][0] == photo(4)
    # ImageNet has PNG and CMYK files under the name of JPEG; both are decoded.
    np.testing.assert_array_equal(
        decode(examples["n03_2.JPEG"][0], 3), smooth_pixels(20, 30, 2)
    )
    assert decode(examples["n01_1.JPEG"][0], 3).shape == (20, 30, 3)


def test_imagenet_validation_gets_its_labels_from_the_kit(imagenet):
    source = opened("imagenet2012", imagenet, "validation")
    assert [source.name(index)[-6] for index in range(4)] == ["1", "2", "3", "4"]
    np.testing.assert_array_equal(source.labels(), [1, 2, 0, 2])
    assert source[2][0] == photo(13)


@pytest.mark.parametrize(
    ("name", "labels", "classes", "files"),
    [
        (
            "cifar10",
            1,
            "batches.meta.txt",
            ("data_batch_1", "data_batch_2", "test_batch"),
        ),
        ("cifar100", 2, "fine_label_names.txt", ("train", "train", "test")),
    ],
)
def test_cifar_is_read_from_the_binary_version(tmp_path, name, labels, classes, files):
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (3, 3, 32, 32), np.uint8)
    rows = [bytes([7] * (labels - 1) + [number]) for number in range(3)]
    parts: dict[str, bytes] = {}
    for file, row, image in zip(files, rows, images, strict=True):
        key = f"folder/{file}.bin"
        parts[key] = parts.get(key, b"") + row + image.tobytes()
    parts[f"folder/{classes}"] = b"plane\ncar\nbird\n\n"
    archive = PUBLISHED[name].archives[0].name
    (tmp_path / archive).write_bytes(gzip.compress(tar_of(parts)))
    train, test = (opened(name, tmp_path, split) for split in ("train", "test"))
    assert train.class_names == ("plane", "car", "bird")
    np.testing.assert_array_equal(train.labels(), [0, 1])
    np.testing.assert_array_equal(test.labels(), [2])
    np.testing.assert_array_equal(train[1][0], images[1].transpose(1, 2, 0))


def test_pets_are_read_with_their_lists(tmp_path):
    images = {
        f"images/{n}.jpg": photo(i) for i, n in enumerate(("Cat_a_1", "dog_2", "dog_3"))
    }
    (tmp_path / "images.tar.gz").write_bytes(gzip.compress(tar_of(images)))
    lists = {
        "annotations/trainval.txt": b"# names\nCat_a_1 1 1 1\ndog_2 2 2 1\n",
        "annotations/test.txt": b"Cat_a_1 1 1 1\ndog_3 2 2 1\n",
    }
    (tmp_path / "annotations.tar.gz").write_bytes(gzip.compress(tar_of(lists)))
    train, test = (opened("pets", tmp_path, split) for split in ("train", "test"))
    assert train.class_names == test.class_names == ("Cat_a", "dog")
    assert [train[index] for index in range(2)] == [
        (photo(0), 0, "Cat_a_1"),
        (photo(1), 1, "dog_2"),
    ]
    assert test[1] == (photo(2), 1, "dog_3")


def test_flowers_are_read_with_their_tables(tmp_path):
    images = {f"jpg/image_{number:05}.jpg": photo(number) for number in range(1, 5)}
    (tmp_path / "102flowers.tgz").write_bytes(gzip.compress(tar_of(images)))
    (tmp_path / "imagelabels.mat").write_bytes(matlab(labels=[[77, 1, 102, 5]]))
    splits = {"trnid": [[3, 1]], "valid": [[2]], "tstid": [[4]]}
    (tmp_path / "setid.mat").write_bytes(matlab(**splits))
    train = opened("flowers102", tmp_path, "train")
    assert [train[index] for index in range(2)] == [
        (photo(3), 101, "3"),
        (photo(1), 76, "1"),
    ]
    assert opened("flowers102", tmp_path, "val")[0][:2] == (photo(2), 0)
    assert opened("flowers102", tmp_path, "test")[0][:2] == (photo(4), 4)


STRANGE_CLASS = tar_of({"n04.tar": tar_of({"n04_1.JPEG": b""})})
DEVKIT = "ILSVRC2012_devkit_t12.tar.gz"


@pytest.mark.parametrize(
    ("archive", "split", "damage"),
    [
        ("ILSVRC2012_img_train.tar", "train", lambda data: b"no tar at all" * 100),
        ("ILSVRC2012_img_train.tar", "train", lambda data: data[: len(data) // 2]),
        ("ILSVRC2012_img_train.tar", "train", lambda data: STRANGE_CLASS),
        ("ILSVRC2012_img_val.tar", "validation", lambda data: data[:700]),
        ("ILSVRC2012_img_val.tar", "validation", lambda data: tar_of({})),
        (DEVKIT, "train", lambda data: data[: len(data) // 2]),
        (DEVKIT, "train", lambda data: gzip.compress(tar_of({"other": b""}))),
        (DEVKIT, "validation", lambda data: b""),
    ],
)
def test_a_damaged_archive_is_named(imagenet, archive, split, damage):
    file = imagenet / archive
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match=f"{archive} is damaged: "):
        opened("imagenet2012", imagenet, split)


@pytest.mark.parametrize(
    "content", [b"", b"text", gzip.compress(b"no tar", mtime=0)[:-9]]
)
@pytest.mark.parametrize("name", ["cifar10", "pets", "flowers102"])
def test_damaged_downloads_are_named(tmp_path, name, content):
    for archive in PUBLISHED[name].archives:
        (tmp_path / archive.name).write_bytes(content)
    with pytest.raises(ValueError, match=r"(gz|tgz|mat) is damaged: "):
        opened(name, tmp_path, "test")


def test_digests_are_those_that_torchvision_checks():
    torchvision = pytest.importorskip("torchvision.datasets")
    imagenet = pytest.importorskip("torchvision.datasets.imagenet")
    ours = {
        archive.name: archive.md5
        for published in PUBLISHED.values()
        for archive in published.archives
    }
    theirs = dict(imagenet.ARCHIVE_META.values())
    theirs |= {
        url.rsplit("/", 1)[1]: md5 for url, md5 in torchvision.OxfordIIITPet._RESOURCES
    }
    theirs |= dict(torchvision.Flowers102._file_dict.values())
    assert theirs.items() <= ours.items()
