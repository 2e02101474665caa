"""The evaluations of a run, while it trains."""

import contextlib
from collections.abc import Callable, Iterator

import jax

from vit_jax.evals import classification
from vit_jax.train import mesh as meshes
from vit_jax.train.assemble import Parts
from vit_jax.train.metrics import Metrics
from vit_jax.train.progress import Progress
from vit_jax.train.state import TrainState


class Evaluations:
    """When a run evaluates, how, and where the figures go."""

    def __init__(self, parts: Parts, metrics: Metrics, progress: Progress):
        self._parts = parts
        self._metrics = metrics
        self._progress = progress
        self._sums = classification.make_sums(parts.logits_of)

    def due(self, step: int) -> bool:
        """Whether `step` is one that is evaluated."""
        every = self._parts.config.evals.every_steps
        periodic = bool(every and step and step % every == 0)
        return step >= self._parts.total_steps or periodic

    def done(self, step: int) -> bool:
        """Whether the newest evaluation in the journal is that of `step`."""
        row = self._metrics.last("eval/accuracy")
        return row is not None and row["step"] == step

    def run(self, step: int, state: TrainState, heed: Callable[[], object]) -> None:
        """Evaluates `state`, writes the figures and says them.

        Args:
          heed: called before each batch; what it raises ends the evaluation, of which
            then nothing is written.
        """
        figures = classification.evaluate(
            self._sums, state.best_params, self._batches(heed)
        )
        row = {"step": step} | {f"eval/{name}": v for name, v in figures.items()}
        self._metrics.write(row)
        self._progress.say(
            f"step {step}: {self._parts.config.data.eval.split} accuracy "
            f"{figures['accuracy']:.2%}, loss {figures['loss']:.4f} "
            f"({figures['examples']} images)"
        )

    def _batches(self, heed: Callable[[], object]) -> Iterator[dict[str, jax.Array]]:
        with contextlib.closing(self._parts.inputs.eval_batches()) as batches:
            for batch in batches:
                heed()
                yield meshes.put_batch(batch, self._parts.mesh)
