"""Ridge regression on features."""

import numpy as np
import pytest

from vit_jax.evals.fewshot import (
    Ridge,
    best_strength,
    fewshot_accuracies,
    pick_examples,
)


def clusters(each, classes=3, width=5, spread=0.3, seed=0):
    """Features around one centre a class, and labels."""
    centres = np.random.default_rng(7).normal(size=(classes, width)) * 3
    labels = np.repeat(np.arange(classes), each)
    noise = np.random.default_rng(seed).normal(size=(len(labels), width)) * spread
    return centres[labels] + noise, labels


def plain_solution(features, labels, classes, l2):
    """The normal equations as they stand, without any decomposition."""
    mean, deviation = features.mean(0), features.std(0) + 1e-5
    x = np.pad((features - mean) / deviation, ((0, 0), (0, 1)), constant_values=100.0)
    targets = 2 * np.eye(classes)[labels] - 1
    weights = np.linalg.solve(x.T @ x + l2 * np.eye(x.shape[1]), x.T @ targets)
    return weights, mean, deviation


@pytest.mark.parametrize("each", [1, 2, 40])
def test_both_forms_solve_the_normal_equations(each):
    features, labels = clusters(each, width=8)
    test, _ = clusters(50, width=8, spread=2.0, seed=1)
    ridge = Ridge(features, labels, 3)
    for l2 in (1.0, 1024.0):
        weights, mean, deviation = plain_solution(features, labels, 3, l2)
        x = np.pad((test - mean) / deviation, ((0, 0), (0, 1)), constant_values=100.0)
        np.testing.assert_array_equal(ridge.predict(test, l2), (x @ weights).argmax(1))


def test_examples_are_drawn_by_class_and_grow():
    labels = np.array([0, 1, 0, 1, 0, 1, 0, 2])
    few, more = (pick_examples(labels, shots, seed=3) for shots in (1, 2))
    assert sorted(labels[few]) == [0, 1, 2]
    assert sorted(labels[more]) == [0, 0, 1, 1, 2]
    assert set(few) <= set(more)
    assert sorted(pick_examples(labels, 0, seed=3)) == list(range(8))
    drawn = {tuple(pick_examples(np.zeros(30, int), 3, seed)) for seed in range(5)}
    assert len(drawn) == 5


def test_accuracy_rises_with_shots_and_reaches_all():
    train = clusters(60, spread=3.0)
    test = clusters(200, spread=3.0, seed=1)
    found = fewshot_accuracies(train, test, num_classes=3, shots=(1, 50), seeds=5)
    assert found.shape == (5, 2, 1)
    assert found[:, 1].mean() > found[:, 0].mean()
    easy = fewshot_accuracies(
        clusters(20), clusters(50, seed=2), num_classes=3, shots=(0,), l2=(1.0,)
    )
    assert easy.min() == 1.0


def test_the_strength_with_the_best_mean_rank_is_chosen():
    # The second is best in most draws, the third in the mean.
    draws = np.array([[0.5, 0.6, 0.1], [0.5, 0.6, 0.1], [0.0, 0.0, 1.0]])
    assert best_strength(draws[:, None]) == 1
    assert best_strength(np.array([[[0.3]]])) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shots": ()}, "shots="),
        ({"shots": (-1,)}, "shots="),
        ({"shots": (1,), "l2": (0.0,)}, "l2="),
        ({"shots": (1,), "seeds": 0}, "seeds=0"),
    ],
)
def test_numbers_that_can_not_be_used_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fewshot_accuracies(clusters(2), clusters(2), num_classes=3, **options)
