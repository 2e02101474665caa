"""Image files in class folders."""

import array
import os

from etils import epath

from vit_jax.data.files import SUFFIXES, FileSource, Paths, images_below, subfolders
from vit_jax.data.labels import class_order

# Names that mean the same split.
_ALIASES = {
    "val": ("val", "validation", "valid"),
    "validation": ("validation", "val", "valid"),
    "valid": ("valid", "val", "validation"),
}
_SPLIT_NAMES = ("train", "val", "validation", "valid", "test")


def open_folder(root: epath.Path, split: str) -> FileSource:
    """The images below root/split/CLASS/, or, for the split `all` of a folder without
    splits, below root/CLASS/.

    Hidden files and files that are no images are passed over; images may lie deeper in
    a class folder. Ids follow the byte order of the folders' names, and an empty class
    folder keeps its id.

    Raises:
      FileNotFoundError: the folder has no such split.
      ValueError: it has no class folder or no image.
    """
    folder = _split_folder(root, split)
    class_names = class_order({path.name for path in subfolders(folder)})
    paths, labels = Paths(), array.array("i")
    for label, name in enumerate(class_names):
        found = images_below(folder / name)
        paths.extend(os.path.join(name, path) for path in found)
        labels.extend([label] * len(found))
    if not len(paths):
        raise ValueError(
            f"{folder} holds no images in class folders; it must have one folder a "
            f"class with files that end in {' '.join(sorted(SUFFIXES))}."
        )
    return FileSource(folder, paths, labels, class_names)


def _split_folder(root: epath.Path, split: str) -> epath.Path:
    for name in _ALIASES.get(split, (split,)):
        if (root / name).is_dir():
            return root / name
    present = sorted(path.name for path in subfolders(root))
    splits = [name for name in present if name in _SPLIT_NAMES]
    if split == "all" and not splits:
        return root
    if splits:
        advice = (
            f"it has {', '.join(splits)}: name one of them, with data.train.split or "
            "data.eval.split"
        )
    else:
        advice = (
            "it has no folder train, val or test; to split one tree of class folders "
            "use data.train.split=all[:90%] and data.eval.split=all[90%:]"
        )
    raise FileNotFoundError(f"{root} has no split {split}; {advice}.")
