"""The evaluations of a run, while it trains."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax

from vit_jax.evals import classification
from vit_jax.evals.confusion import Predictions
from vit_jax.models.adapt import resize_params
from vit_jax.train import mesh as meshes
from vit_jax.train.assemble import Parts
from vit_jax.train.details import Details
from vit_jax.train.metrics import Metrics
from vit_jax.train.progress import Progress
from vit_jax.train.state import TrainState
from vit_jax.workdir import Workdir


class Evaluations:
    """When a run evaluates, how, and where the figures go.

    Args:
      workdir: where details of classes go (evals.per_class); None: nowhere.

    Attributes:
      compiled: whether an evaluation has been run, and so waits for no compiler.
    """

    def __init__(
        self,
        parts: Parts,
        metrics: Metrics,
        progress: Progress,
        workdir: Workdir | None,
    ):
        self._workdir = workdir
        self._evaluates = bool(parts.config.data.eval.split)
        self._details = Details(
            parts.inputs.class_names,
            parts.config.model.num_classes,
            per_class=parts.config.evals.per_class,
            real=parts.real_labels,
        )
        if self._details.asked and self._evaluates:
            self._details.check(parts.inputs.eval_sources[""])
        self._parts = parts
        self._metrics = metrics
        self._progress = progress
        self._sums = classification.make_sums(parts.logits_of)
        self.compiled = False

    def due(self, step: int) -> bool:
        """Whether `step` is one that is evaluated."""
        if not self._evaluates:
            return False
        every = self._parts.config.evals.every_steps
        periodic = bool(every and step and step % every == 0)
        return step >= self._parts.total_steps or periodic

    def done(self, step: int) -> bool:
        """Whether nothing is left to evaluate at `step`: the journal has it."""
        if not self._evaluates:
            return True
        row = self._metrics.last("eval/accuracy")
        return row is not None and row["step"] == step

    def params_of(self, state: TrainState, image_size: tuple[int, int]) -> Any:
        """The weights to evaluate, for the model's size whatever the stage's is.

        So all figures of a run, and those of its workdir later, are of one size.
        """
        parts = self._parts
        return resize_params(
            state.eval_params,
            parts.spec,
            parts.at(image_size).grid,
            parts.at(parts.image_shape[:2]).grid,
        )

    def run(self, step: int, params: Any, heed: Callable[[], object]) -> dict[str, Any]:
        """Evaluates weights on every set, writes the figures and says them; the row.

        Args:
          params: what `params_of` gave.
          heed: called before each batch; what it raises ends the evaluation, of which
            then nothing is written.
        """
        inputs, row = self._parts.inputs, {"step": step}
        details = {}
        for name, batches in ({"": inputs.eval_batches} | inputs.eval_sets).items():
            prefix = f"eval/{name}".rstrip("/")
            figures, details[prefix] = self._figures(name, params, batches, heed)
            row |= {f"{prefix}/{key}": value for key, value in figures.items()}
        self.compiled = True
        if self._parts.config.evals.per_class and self._workdir:
            self._workdir.write_evaluation({"step": step, "sets": details})
        self._metrics.write(row)
        for name in ("", *(f"{name}/" for name in inputs.eval_sets)):
            what = name.rstrip("/") or self._parts.config.data.eval.split
            self._progress.say(
                f"step {step}: {what} accuracy {row[f'eval/{name}accuracy']:.2%}, "
                f"loss {row[f'eval/{name}loss']:.4f} "
                f"({row[f'eval/{name}examples']} images)"
            )
        return row

    def _figures(
        self,
        name: str,
        params: Any,
        passes: Callable[[], Iterator[dict[str, Any]]],
        heed: Callable[[], object],
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """(figures of a set, its classes and confusion matrix where asked for)."""
        seen = Predictions() if self._details.asked else None
        batches = self._batches(passes, heed)
        figures = classification.evaluate(self._sums, params, batches, seen)
        if seen is None:
            return figures, {}
        source = self._parts.inputs.eval_sources[name]
        more, matrix = self._details.of(seen.all(), source, main=not name)
        if "per_class" not in more:
            return figures | more, {}
        classes = {"per_class": more.pop("per_class"), "counts": matrix.tolist()}
        return figures | more, {"classes": self._details.names} | classes

    def _batches(
        self, passes: Callable[[], Iterator[dict[str, Any]]], heed: Callable[[], object]
    ) -> Iterator[dict[str, jax.Array]]:
        with contextlib.closing(passes()) as batches:
            for batch in batches:
                heed()
                yield meshes.put_batch(
                    batch, self._parts.mesh, index=self._details.asked
                )
