"""Each picture of a model that can be drawn, and what is said of the others."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import jax
from etils import epath

from vit_jax import trees
from vit_jax.data.decode import UnreadableImage
from vit_jax.evals.confusion import confusion_matrix
from vit_jax.models.adapt import ZERO_HEAD, head_is_zero
from vit_jax.models.variants import as_overrides
from vit_jax.train.details import class_labels
from vit_jax.train.examples import Examples, read_examples
from vit_jax.train.journal import Journal
from vit_jax.train.looks import Looks, Subject, subject_of
from vit_jax.visualize import confusion, curves, filters, mistakes, position
from vit_jax.visualize.report import Picture
from vit_jax.visualize.views import full_view
from vit_jax.weights import Loaded
from vit_jax.workdir import Workdir

# Images whose attention is averaged where none are named, and most where some are.
_LOOKED_AT = 16
_MOST = 128


class Gallery:
    """The pictures of one model; `notes` says which can't be drawn, and why."""

    def __init__(self, loaded: Loaded, workdir: Workdir | None):
        self.notes: list[str] = []
        self._loaded = loaded
        self._workdir = workdir
        self._examples: Examples | None = None
        self._subjects: list[Subject] = []

    def read_examples(self, limit: int, occluded: int) -> None:
        """Opens the run's evaluation split, where there is one."""
        if self._workdir is None:
            return
        if head_is_zero(self._loaded.params):
            self.notes.append(ZERO_HEAD)
            return
        kept = max(occluded, _LOOKED_AT)
        try:
            self._examples = read_examples(
                self._workdir.path, self._loaded, limit, kept
            )
        except (FileNotFoundError, ValueError) as error:
            self.notes.append(f"No pictures of the run's answers: {error}")

    def choose_subjects(self, files: Sequence[str]) -> dict[str, str]:
        """Takes the images to look at; returns file -> why it can't be read."""
        preprocessing, unreadable = self._loaded.preprocessing, {}
        for file in files[:_MOST]:
            try:
                data = epath.Path(file).read_bytes()
                name = os.path.basename(file)
                self._subjects.append(subject_of(data, name, preprocessing))
            except (UnreadableImage, OSError) as error:
                unreadable[file] = str(error)
        if len(files) > _MOST:
            self.notes.append(f"The first {_MOST} of {len(files)} images are shown.")
        if files and not self._subjects:
            raise ValueError(f"none of the images can be read: {unreadable}")
        if not files and self._examples is not None:
            for place in range(min(_LOOKED_AT, len(self._examples.images))):
                label = int(self._examples.label_N[place])
                name = f"{self._names()[label]}, example {place + 1}"
                data = self._examples.original(place)
                self._subjects.append(subject_of(data, name, preprocessing))
        return unreadable

    def curves(self, compare: Sequence[str]) -> Iterator[Picture]:
        """Training curves of this run and of others."""
        paths = [] if self._workdir is None else [self._workdir.path]
        journals = _journals([*paths, *compare])
        if any(journals.values()):
            yield Picture(
                "curves",
                "Training",
                "By optimizer step. A faint line is each row of the journal, the line "
                "over it the mean of some.",
                curves.draw_curves(journals),
            )

    def answers(self) -> Iterator[Picture]:
        """Confusion matrix and worst mistakes on labelled examples."""
        if self._examples is None:
            return
        found, names = self._examples, self._names()
        predicted_N = found.probabilities_NV.argmax(axis=1)
        matrix_VV = confusion_matrix(found.label_N, predicted_N, len(names))
        caption = "Rows are classes, columns what the model says; numbers are examples."
        if len(names) > confusion.MOST:
            caption += f" Of {len(names)} classes, the {confusion.MOST} with most "
            caption += "mistakes."
        yield Picture(
            "confusion",
            "Which classes are taken for which",
            caption,
            confusion.draw_confusion(matrix_VV, names),
        )
        worst = mistakes.worst_mistakes(found.probabilities_NV, found.label_N)
        if not len(worst):
            self.notes.append("No mistakes to show: every answer is right.")
            return
        wrong = int((predicted_N != found.label_N).sum())
        yield Picture(
            "mistakes",
            "Worst mistakes",
            f"{len(worst)} of {wrong} wrong answers, the surest first: the answer with "
            "its probability, and below it the class with its own.",
            mistakes.draw_mistakes(
                [
                    full_view(found.original(p), self._loaded.preprocessing)
                    for p in worst
                ],
                found.probabilities_NV[worst],
                found.label_N[worst],
                names,
            ),
        )

    def weights(self) -> Iterator[Picture]:
        """First filters and positions, which need no image."""
        components, shares = filters.filter_components(
            filters.first_kernel(self._loaded.params)
        )
        yield Picture(
            "filters",
            "What the first layer looks for",
            f"The first {len(components)} principal components of its filters, with "
            "their shares of the variance.",
            filters.draw_filters(components, shares),
        )
        loaded = self._loaded
        if not hasattr(loaded.model, "encoder"):
            self.notes.append("A ResNet has no positions and no attention.")
            return
        try:
            maps, quantity = position.position_maps(
                loaded.model, loaded.params, loaded.grid, loaded.spec.depth
            )
        except ValueError as error:
            self.notes.append(f"No picture of positions: {error}.")
            return
        yield Picture(
            "position",
            "How alike positions are",
            "Each tile belongs to one position and shows it against all. A model "
            "that knows rows and columns has a bright cross or spot in each.",
            position.draw_position(maps, quantity),
        )

    def looks(
        self, layer: int, mask: Sequence[float] | None, occluded: int
    ) -> Iterator[Picture]:
        """Attention and occlusion, for models with attention and images to look at."""
        if not hasattr(self._loaded.model, "encoder"):
            return
        if not self._subjects:
            self.notes.append("Name --images to see what the model looks at.")
            return
        looks = Looks(self._loaded, self._subjects, layer)
        yield from looks.attention()
        loaded = self._loaded
        if (
            loaded.model.head is None
            or loaded.spec.pool == "none"
            or head_is_zero(loaded.params)
        ):
            self.notes.append("Without a trained head nothing can be lost by covering.")
            return
        yield from looks.region(mask, self._names())
        if self._examples is None:
            yield from looks.occlusion(occluded)
        else:
            found = self._examples
            yield from looks.occlusion(occluded, (found.images, found.label_N))

    def facts(self, path: str | os.PathLike) -> dict[str, str]:
        """What the page says of the model."""
        loaded = self._loaded
        name = loaded.variant or as_overrides(loaded.spec)[0]
        count = sum(leaf.size for leaf in jax.tree.leaves(loaded.params))
        rows, columns = loaded.preprocessing["image_size"]
        facts = {
            "weights": f"{path}" + (f", step {loaded.step:,}" if loaded.step else ""),
            "model": f"{name}, {count:,} parameters",
            "images": f"{rows} x {columns} pixels",
        }
        if self._examples is not None:
            found = self._examples
            right = (found.probabilities_NV.argmax(axis=1) == found.label_N).mean()
            shown = f"{len(found.label_N):,}"
            if len(found.label_N) < found.total:
                shown = f"the first {shown} of {found.total:,}"
            facts["accuracy"] = f"{right:.2%} of {shown} evaluation images"
        return facts

    def _names(self) -> tuple[str, ...]:
        flat = trees.flatten(self._loaded.params)
        heads = [n for n in flat if n.startswith("head/") and n.endswith("kernel")]
        return class_labels(self._loaded.class_names, flat[heads[0]].shape[-1])


def name_of(path: str | os.PathLike) -> str:
    """The last part of a path."""
    return os.path.basename(os.path.normpath(path))


def _journals(paths: Sequence[str | os.PathLike]) -> dict[str, list[dict[str, Any]]]:
    """Name of a run -> rows of its journal; whole paths where two names are equal."""
    names = [name_of(path) for path in paths]
    if len(set(names)) < len(names):
        names = [os.fspath(path) for path in paths]
    journals = {}
    for name, path in zip(names, paths, strict=True):
        workdir = Workdir(path)
        if not workdir.metrics.exists() and path is not paths[0]:
            raise FileNotFoundError(
                f"{path} has no {workdir.metrics.name}; name the workdirs of training "
                "runs to compare."
            )
        journals[name] = Journal(workdir.metrics, writes=False).rows()
    return journals
