"""All pictures of a run, or of any weights, with one page that shows them."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from etils import epath

from vit_jax.convert.source import is_foreign
from vit_jax.data.files import find_images
from vit_jax.train.gallery import Gallery, name_of
from vit_jax.visualize import figures
from vit_jax.visualize.report import write_report
from vit_jax.weights import load
from vit_jax.workdir import Workdir


@dataclasses.dataclass(frozen=True)
class Written:
    """What was written.

    Attributes:
      page: the report.
      names: of the pictures.
      notes: what is missing, and why.
      unreadable: image file -> why it can't be read.
    """

    page: epath.Path
    names: tuple[str, ...]
    notes: tuple[str, ...]
    unreadable: dict[str, str]


def write_pictures(
    path: str | os.PathLike,
    output: str | os.PathLike,
    *,
    images: Sequence[str] = (),
    compare: Sequence[str] = (),
    checkpoint: str | int = "latest",
    layer: int = 0,
    mask: Sequence[float] | None = None,
    examples: int = 2000,
    occluded: int = 16,
    **said: Any,
) -> Written:
    """Writes a PNG for each picture that can be drawn, and `report.html`.

    Args:
      path, checkpoint, **said: as `vit_jax.load` takes them.
      output: a folder; made if need be.
      images: files and folders; without, the first examples of the run's evaluation
        split.
      compare: workdirs whose training curves are drawn beside this run's.
      layer: whose heads to show, 1 to depth; 0: the last.
      mask: what to cover, as shares of the image: top, left, bottom, right; None: where
        the model looks most.
      examples: most labelled examples to judge the model by.
      occluded: images of the occlusion curve.

    Raises:
      FileNotFoundError: nothing is at a path.
      ValueError: matplotlib is missing, or an argument is wrong.
    """
    figures.require()
    folder = epath.Path(output).expanduser()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"output={folder} is a file; name a folder to write into.")
    files = find_images([os.path.expanduser(image) for image in images])
    loaded = load(path, checkpoint, **said)
    gallery = Gallery(loaded, None if is_foreign(path) else _workdir_of(path))
    gallery.read_examples(examples, occluded)
    unreadable = gallery.choose_subjects(files)
    pictures = [
        *gallery.curves(compare),
        *gallery.answers(),
        *gallery.weights(),
        *gallery.looks(layer, mask, occluded),
    ]
    if not pictures:
        raise ValueError(f"no picture of {path} can be drawn: {gallery.notes}")
    page = write_report(
        folder,
        pictures,
        title=f"Pictures of {name_of(path)}",
        facts=gallery.facts(path),
        notes=gallery.notes,
    )
    names = tuple(picture.name for picture in pictures)
    return Written(page, names, tuple(gallery.notes), unreadable)


def _workdir_of(path: str | os.PathLike) -> Workdir:
    """The run that a workdir, or one of its checkpoints, belongs to."""
    here = Workdir(path)
    for folder in (here.path, here.path.parent, here.path.parent.parent):
        if Workdir(folder).config.exists():
            return Workdir(folder)
    return here
