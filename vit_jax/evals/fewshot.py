"""Few-shot accuracy: a linear classifier on features, in closed form.

As big_vision's `fewshot_lsr`: features whitened by the training examples' mean and
deviation, a constant of 100 in place of a bias, targets of -1 and 1, ridge regression,
the first examples of each class after a shuffle by the seed.

Source: Dosovitskiy et al. 2021, arXiv 2010.11929, section 4.1, in the form of
big_vision's evaluator.
"""

from collections.abc import Sequence

import numpy as np

BIAS = 100.0
# big_vision's; several are compared only where a caller asks for it.
L2 = (2.0**10,)
_LEAST_DEVIATION = 1e-5


class Ridge:
    """Ridge regression onto classes, for any strength after one decomposition.

    Args:
      features_ND: training examples.
      labels_N: class ids.
      num_classes: V.

    With N examples of D numbers the normal equations are solved in the smaller of the
    two, D by D or N by N; both give the same weights.
    """

    def __init__(self, features_ND: np.ndarray, labels_N: np.ndarray, num_classes: int):
        features_ND = np.asarray(features_ND, np.float64)
        self._mean = features_ND.mean(axis=0)
        self._deviation = features_ND.std(axis=0) + _LEAST_DEVIATION
        x = self._whitened(features_ND)
        targets_NV = 2 * np.eye(num_classes)[labels_N] - 1
        if len(x) >= x.shape[1]:
            self._values, vectors = np.linalg.eigh(x.T @ x)
            self._left, self._right = vectors, vectors.T @ (x.T @ targets_NV)
        else:
            self._values, vectors = np.linalg.eigh(x @ x.T)
            self._left, self._right = x.T @ vectors, vectors.T @ targets_NV

    def predict(self, features_ND: np.ndarray, l2: float) -> np.ndarray:
        """Class ids [N]; `l2` is the strength of the penalty, above 0."""
        weights_DV = (self._left / (self._values + l2)) @ self._right
        return np.argmax(self._whitened(features_ND) @ weights_DV, axis=1)

    def _whitened(self, features_ND: np.ndarray) -> np.ndarray:
        x = (np.asarray(features_ND, np.float64) - self._mean) / self._deviation
        return np.pad(x, ((0, 0), (0, 1)), constant_values=BIAS)


def pick_examples(labels_N: np.ndarray, shots: int, seed: int) -> np.ndarray:
    """Indices of `shots` examples of each class (0: all), the same for each call.

    A class that has fewer gives all; more shots contain those of fewer.
    """
    random = np.random.default_rng(seed)
    chosen = []
    for label in range(labels_N.max() + 1):
        members = random.permutation(np.flatnonzero(labels_N == label))
        chosen.append(members[:shots] if shots else members)
    return np.concatenate(chosen)


def fewshot_accuracies(
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    *,
    num_classes: int,
    shots: Sequence[int],
    l2: Sequence[float] = L2,
    seeds: int = 3,
) -> np.ndarray:
    """Test accuracies [seeds, shots, strengths].

    Args:
      train: (features [N, D], class ids [N]); the examples are drawn from them.
      test: the same of the examples that are predicted.
      num_classes: V.
      shots: examples of each class; 0: all there are.
      l2: strengths of the penalty.
      seeds: how many draws of examples, 0 to seeds - 1.

    Raises:
      ValueError: a number can't be used.
    """
    if not shots or min(shots) < 0:
        raise ValueError(f"shots={tuple(shots)} must be numbers of 0 or more.")
    if not l2 or min(l2) <= 0:
        raise ValueError(f"l2={tuple(l2)} must be numbers above 0.")
    if seeds < 1:
        raise ValueError(f"seeds={seeds} must be 1 or more.")
    found = np.zeros((seeds, len(shots), len(l2)))
    for seed in range(seeds):
        for row, count in enumerate(shots):
            chosen = pick_examples(train[1], count, seed)
            ridge = Ridge(train[0][chosen], train[1][chosen], num_classes)
            for column, strength in enumerate(l2):
                right = ridge.predict(test[0], strength) == test[1]
                found[seed, row, column] = right.mean()
    return found


def best_strength(accuracies: np.ndarray) -> int:
    """Index of the strength with the best mean rank over seeds and shots.

    Ranks, and not means, so that one number of shots doesn't decide alone. The choice
    sees the test set; report it as such, or leave one strength.
    """
    # Half a second to import, which only this needs.
    from scipy.stats import rankdata

    ranks = rankdata(accuracies, axis=-1).reshape(-1, accuracies.shape[-1])
    return int(np.argmax(ranks.mean(axis=0)))
