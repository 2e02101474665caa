"""The surest wrong answers."""

import numpy as np

from vit_jax.visualize.mistakes import draw_mistakes, worst_mistakes

PROBABILITIES = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7]])
LABELS = np.array([1, 1, 1, 0])


def test_the_surest_mistake_comes_first_and_right_answers_do_not_come():
    assert worst_mistakes(PROBABILITIES, LABELS).tolist() == [0, 3, 1]
    assert worst_mistakes(PROBABILITIES, LABELS, 1).tolist() == [0]
    assert worst_mistakes(PROBABILITIES, PROBABILITIES.argmax(1)).tolist() == []


def test_the_sheet_names_answer_and_class_with_probabilities():
    worst = worst_mistakes(PROBABILITIES, LABELS)
    images = [np.zeros((8, 8, 1), np.uint8)] * 3
    figure = draw_mistakes(
        images, PROBABILITIES[worst], LABELS[worst], ("cat", "a dog with a long name")
    )
    titles = [axis.get_title() for axis in figure.axes if axis.images]
    assert titles[0] == "says cat (90%)\nis a dog with a lo… (10%)"
    assert titles[1] == "says a dog with a lo… (70%)\nis cat (30%)"
