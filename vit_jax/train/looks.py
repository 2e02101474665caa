"""Pictures of what a model looks at in some images."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from vit_jax.data.preprocess import preprocess
from vit_jax.evals.prediction import ACTIVATIONS
from vit_jax.layers.position import Layout
from vit_jax.visualize import attention, distance, occlusion, overlays
from vit_jax.visualize.report import Picture
from vit_jax.visualize.views import full_view
from vit_jax.weights import Loaded, make_logits

# Images in the rollout picture.
_SHOWN = 8
# Images of one call of the model while patches are covered.
_BATCH = 32


@dataclasses.dataclass(frozen=True)
class Subject:
    """An image: as the model takes it, and the same part at its own resolution."""

    name: str
    image: np.ndarray
    view: np.ndarray


def subject_of(
    data: bytes | np.ndarray, name: str, preprocessing: Mapping[str, Any]
) -> Subject:
    """A subject from an encoded image or from pixels.

    Raises:
      UnreadableImage: the bytes can't be decoded.
    """
    image = preprocess(data, preprocessing)
    return Subject(name, image, full_view(data, preprocessing))


class Looks:
    """A Vision Transformer's attention to some images.

    Args:
      loaded: the model.
      subjects: one or more.
      layer: whose heads to show, 1 to depth; 0: the last.

    Raises:
      ValueError: there is no such layer.
    """

    def __init__(self, loaded: Loaded, subjects: Sequence[Subject], layer: int = 0):
        if not 0 <= layer <= loaded.spec.depth:
            raise ValueError(
                f"layer={layer} must be 1 to {loaded.spec.depth}, the layers of the "
                "model, or 0 for the last."
            )
        self._loaded = loaded
        self._subjects = subjects
        self._layer = layer or loaded.spec.depth
        self._layout = Layout(*loaded.grid, attention.num_prefix(loaded.model))
        self._look = jax.jit(attention.make_look(loaded.model, loaded.preprocessing))
        self._logits = jax.jit(make_logits(loaded.model, loaded.preprocessing))

    def attention(self) -> Iterator[Picture]:
        """Distances averaged over all images, rollouts of some, heads of the first."""
        size, grid = self._loaded.preprocessing["image_size"], self._layout.grid
        patch = (size[0] / grid[0], size[1] / grid[1])
        maps, distances, heads = [], [], None
        for subject in self._subjects:
            weights, reading_N = self._seen(subject.image)
            distances.append(distance.mean_distances(weights, self._layout, patch))
            maps.append(attention.rollout_map(weights, reading_N, self._layout))
            if heads is None:
                heads = attention.head_maps(
                    weights[self._layer - 1], reading_N, self._layout
                )
        count = len(self._subjects)
        yield Picture(
            "distance",
            "How far attention looks",
            f"Pixels of the model's {size[0]} x {size[1]} input between a patch and "
            f"those it attends to, by head and layer; the mean of {count} images.",
            distance.draw_distances(
                # A head may have looked at no patch of any image.
                np.ma.masked_invalid(distances).mean(axis=0).filled(np.nan),
                distance.pixel_distances(grid, patch).mean(),
            ),
        )
        shown = self._subjects[:_SHOWN]
        yield Picture(
            "rollout",
            "Where the answer comes from",
            "Attention rollout: the heads' mean with the residual connection, "
            "multiplied through all layers, as the head of the model reads it. Bright "
            "patches weigh most; each image has its own scale.",
            overlays.draw_rollout(
                [subject.view for subject in shown],
                maps[:_SHOWN],
                [subject.name for subject in shown],
            ),
        )
        yield Picture(
            "heads",
            f"The heads of layer {self._layer}",
            f"What each looks at in {self._subjects[0].name}; one scale for all.",
            overlays.draw_heads(self._subjects[0].view, heads),
        )

    def region(
        self, mask: Sequence[float] | None, class_names: Sequence[str]
    ) -> Iterator[Picture]:
        """The first image with a part covered, and where attention went.

        Raises:
          ValueError: the mask is no part of the image.
        """
        subject, grid = self._subjects[0], self._layout.grid
        before_YX = self._rollout(subject.image)
        box = occlusion.salient_box(before_YX)
        if mask is not None:
            box = occlusion.box_of(mask, grid)
        hidden = occlusion.box_covered(subject.image, box, grid, self._fill)
        after_YX = self._rollout(hidden)
        view = occlusion.box_covered(subject.view, box, grid, self._fill)
        moved = attention.moved_share(before_YX, after_YX)
        yield Picture(
            "region",
            "What happens when a part is covered",
            f"{subject.name} whole, and with the box painted in the mean colour: the "
            "answer, and attention (rollout) on one scale. The share that moved is "
            "half the sum of all differences.",
            occlusion.draw_region(
                (subject.view, before_YX, self._answer(subject.image, class_names)),
                (view, after_YX, self._answer(hidden, class_names)),
                box,
                moved,
            ),
        )

    def occlusion(
        self, count: int, labelled: tuple[np.ndarray, np.ndarray] | None = None
    ) -> Iterator[Picture]:
        """What is left of the answers as patches are covered.

        Args:
          count: most images; 0: no picture.
          labelled: (uint8 images [N, Y, X, C], labels); without, the subjects, whose
            labels are the model's answers to the whole images.
        """
        if not count:
            return
        images = np.stack([subject.image for subject in self._subjects])
        if labelled is not None:
            images = labelled[0]
        images = images[:count]
        labels_N = self._logits_of(images).argmax(axis=-1)
        answer = "answers that stay"
        if labelled is not None:
            labels_N, answer = labelled[1][: len(images)], "accuracy"
        saliency = np.stack([self._rollout(image).reshape(-1) for image in images])
        rest = (images, labels_N), (self._layout.grid, self._fill)
        found = {
            name: occlusion.occlusion_curve(self._logits_of, *rest[0], order, *rest[1])
            for name, order in occlusion.cover_orders(saliency).items()
        }
        yield Picture(
            "occlusion",
            "What the model knows when patches are covered",
            f"{len(images)} images; patches are painted in the mean colour, those with "
            "most attention (rollout) first, last, or at random.",
            occlusion.draw_occlusion(found, occlusion.SHARES, answer),
        )

    @functools.cached_property
    def _fill(self) -> np.ndarray:
        mean = np.asarray(self._loaded.preprocessing["mean"])
        return np.round(255 * mean).clip(0, 255).astype(np.uint8)

    def _seen(self, image: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Attention [H, N, N] a layer, and how the pool reads tokens [N]."""
        look = jax.device_get(self._look(self._loaded.params, image[None]))
        return [weights[0] for weights in look.attention], look.reading[0]

    def _rollout(self, image: np.ndarray) -> np.ndarray:
        weights, reading_N = self._seen(image)
        return attention.rollout_map(weights, reading_N, self._layout)

    def _logits_of(self, images: np.ndarray) -> np.ndarray:
        """Logits [N, V], in calls of one size so that one compiles."""
        size = min(_BATCH, len(images))
        rows = []
        for start in range(0, len(images), size):
            part = images[start : start + size]
            filled = np.pad(part, [(0, size - len(part))] + [(0, 0)] * 3)
            logits = self._logits(self._loaded.params, filled)
            rows.append(np.asarray(logits, np.float32)[: len(part)])
        return np.concatenate(rows)

    def _answer(self, image: np.ndarray, class_names: Sequence[str]) -> str:
        logits_V = self._logits_of(image[None])[0]
        best = int(logits_V.argmax())
        row_V = np.asarray(ACTIVATIONS[self._loaded.loss](logits_V))
        return f"{class_names[best]} {row_V[best]:.0%}"
