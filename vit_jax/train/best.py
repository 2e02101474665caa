"""The best weights so far by one figure, kept beside the newest checkpoints."""

import math
from collections.abc import Sequence
from typing import Any

from ml_collections import ConfigDict

from vit_jax.checkpoint import Checkpoints, complete_steps, set_aside
from vit_jax.workdir import Workdir

Row = dict[str, Any]


class Best:
    """Keeps the weights of the best evaluation in `best/`, its figures in `best.json`.

    What was best before is the journal's figure of the weights in `best/`, if those
    are not of a later step than the checkpoint that a run goes on from. A figure
    whose weights are gone is in nobody's way: the steps since come again, and a
    resumed run ends with what an uninterrupted one would have kept.

    Attributes:
      note: says which better figure of the journal has no weights; "" where none has.

    Args:
      policy: the checkpoint group: best_metric, empty for none, and best_mode, unset
        to follow the metric.
      rows: of the journal.
      step: of the checkpoint that the run goes on from; later rows don't count.
      leads: whether this process writes the figures; all save the weights.
    """

    def __init__(
        self,
        policy: ConfigDict,
        workdir: Workdir,
        *,
        rows: Sequence[Row],
        step: int,
        leads: bool,
    ):
        self._metric = policy.best_metric
        self._sign = {"max": 1, "min": -1}[
            policy.best_mode or best_mode(policy.best_metric)
        ]
        self._workdir = workdir
        self._leads = leads
        journal = {
            row["step"]: self._sign * row[self._metric]
            for row in rows
            if row.get(self._metric) is not None and row["step"] <= step
        }
        kept = complete_steps(workdir.best) if self._metric else []
        self._seen = {at: journal[at] for at in kept if at in journal}
        self.note = ""
        # Weights of a later step are of a course that comes again.
        if not any(at > step for at in kept):
            self.note = self._lost(journal, step)

    def keep(self, row: Row, params: Any) -> bool:
        """Saves the weights of an evaluation if no earlier one was as good.

        Returns when they are on disk, and whether they were saved. The former best goes
        when the new one is whole.

        Args:
          row: of the evaluation, with its step.
          params: the evaluated weights.

        Raises:
          SaveFailed: they could not be written; the former best is whole.
        """
        if not self._is_best(row):
            return False
        folder, step = self._workdir.best, row["step"]
        # Those are of a course of training that a restart has undone.
        for later in complete_steps(folder):
            if later >= step and self._leads:
                set_aside(folder, later, "undone")
        checkpoints = Checkpoints(folder, keep=1)
        try:
            checkpoints.save(step, {"params": params})
        finally:
            checkpoints.close()
        if self._leads:
            self._workdir.write_best(row | {"metric": self._metric})
        return True

    def lacks(self, row: Row | None) -> bool:
        """Whether an evaluation is the best so far and not kept, or not its figures."""
        if row is None or not self._is_best(row):
            return False
        if complete_steps(self._workdir.best)[-1:] != [row["step"]]:
            return True
        # A kill may have come between the weights and their figures.
        figures = self._workdir.read_best() or {}
        return figures.get("step") != row["step"]

    def sentence(self, row: Row) -> str:
        """What to say when `keep` has saved."""
        return f"the best so far, kept in best/: {self._metric} {row[self._metric]:.4g}"

    def _lost(self, journal: dict[int, float], step: int) -> str:
        """What to say of the best row where `best/` lacks its weights; else ""."""
        numbers = {at: seen for at, seen in journal.items() if not math.isnan(seen)}
        if not numbers:
            return ""
        at = max(numbers, key=numbers.get)
        held = max((numbers.get(at, -math.inf) for at in self._seen), default=-math.inf)
        # The weights of the checkpoint itself are kept at once.
        if at == step or numbers[at] <= held:
            return ""
        return (
            f"the best {self._metric} so far, {self._sign * numbers[at]:.4g} of step "
            f"{at}, has no weights in best/, so it doesn't count"
        )

    def _is_best(self, row: Row) -> bool:
        # A row of before the metric was switched on lacks it; null was no number.
        if row.get(self._metric) is None:
            return False
        step, value = row["step"], self._sign * row[self._metric]
        self._seen[step] = value
        earlier = [seen for at, seen in self._seen.items() if at < step]
        # What is no number is never the best, nor in the way of what is.
        numbers = [seen for seen in earlier if not math.isnan(seen)]
        return value > max(numbers, default=-math.inf)


def best_mode(metric: str) -> str:
    """Where a figure is best: "min" for a loss, "max" for an accuracy."""
    return "min" if metric.rsplit("/", 1)[-1] == "loss" else "max"
