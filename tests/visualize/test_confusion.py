"""A planted confusion."""

import numpy as np

from vit_jax.visualize import confusion


def planted(classes=40):
    """Ten examples a class, all right, but class 7 is taken for 30 four times."""
    matrix = 10 * np.eye(classes, dtype=np.int64)
    matrix[7, 7], matrix[7, 30] = 6, 4
    return matrix


def test_the_planted_confusion_is_among_the_most_confused():
    assert {7, 30} <= set(confusion.most_confused(planted(), 2).tolist())
    assert confusion.most_confused(planted(), 50).tolist() == list(range(40))


def test_shares_are_of_a_class_and_empty_classes_have_none():
    matrix = planted()
    matrix[3] = 0
    shares = confusion.shares_of_rows(matrix)
    assert shares[7, 30] == 0.4 and shares[7, 7] == 0.6
    assert not shares[3].any()


def test_the_picture_has_the_counts_and_names():
    names = [f"class {index}" for index in range(40)]
    figure = confusion.draw_confusion(planted(), names)
    axes = figure.axes[0]
    rows = [text.get_text() for text in axes.get_yticklabels()]
    assert len(rows) == confusion.MOST
    cells = {text.get_position(): text.get_text() for text in axes.texts}
    assert cells[rows.index("class 30"), rows.index("class 7")] == "4"
    assert cells[rows.index("class 7"), rows.index("class 7")] == "6"
    assert len(cells) == confusion.MOST + 1
