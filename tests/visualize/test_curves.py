"""Training curves of planted journals."""

import numpy as np
import pytest

from vit_jax.visualize import curves

ROWS = [
    {"step": 1, "loss": 4.0, "learning_rate": 0.1},
    {"step": 2, "loss": 2.0, "learning_rate": 0.2},
    {"step": 2, "eval/accuracy": 0.25, "eval/loss": 1.0},
    {"step": 3, "loss": None},
]


def test_a_series_has_the_rows_with_its_key():
    steps, values = curves.series(ROWS, "loss")
    assert steps.tolist() == [1, 2] and values.tolist() == [4, 2]
    assert curves.series(ROWS, "absent")[0].shape == (0,)


def test_smoothing_takes_the_mean_of_what_went_before():
    found = curves.smoothed(np.array([1.0, 3, 5, 7]), 2)
    np.testing.assert_allclose(found, [1, 2, 4, 6])


def test_one_run_has_a_panel_a_figure_and_no_legend():
    figure = curves.draw_curves({"run": ROWS})
    labels = [axis.get_ylabel() for axis in figure.axes]
    assert labels == [
        "training loss",
        "evaluation loss",
        "evaluation accuracy (%)",
        "learning rate",
    ]
    assert figure.axes[2].lines[0].get_ydata().tolist() == [25]
    assert not figure.legends


def test_many_runs_have_a_line_each_with_its_name():
    figure = curves.draw_curves({"a": ROWS, "$b$": ROWS[:2], "none": []})
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[:2] == ["a", r"\$b\$"]
    assert len(figure.axes[1].lines[0].get_ydata()) == 1


def test_many_rows_are_drawn_faint_under_their_mean():
    values = np.exp(-np.arange(400) / 40)
    rows = [{"step": i, "loss": float(value)} for i, value in enumerate(values)]
    (axes,) = curves.draw_curves({"run": rows}).axes
    faint, line = axes.lines
    assert faint.get_alpha() < 1
    np.testing.assert_allclose(line.get_ydata()[9], values[:10].mean())
    assert axes.get_yscale() == "log"


def test_journals_without_figures_are_refused():
    with pytest.raises(ValueError, match="no row of run has any of"):
        curves.draw_curves({"run": [{"step": 1}]})
