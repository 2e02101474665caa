"""Random numbers and permutations that are pure functions of seed and position.

Every draw of the input pipeline comes from here, so that an example is augmented in
the same way whichever process, worker or restart reaches it.
"""

import math

import numpy as np

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
# Streams keep numbers for different uses of one seed apart.
_AUGMENT, _SHUFFLE, _WORDS = 0, 1, 2
_FEISTEL_ROUNDS = 8
# On a smaller square than this a Feistel network reaches too few permutations.
_SMALLEST_SIDE = 4
_COPIES_APART = 32


def philox(counters: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Four random 32-bit words for each counter, as uint64 [..., 4].

    Args:
      counters: uint64 [..., 4], each entry below 2**32.
      key: two words below 2**32.

    Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3",
    Philox4x32-10.
    """
    c0, c1, c2, c3 = (counters[..., lane] for lane in range(4))
    k0, k1 = np.uint64(key[0]), np.uint64(key[1])
    for _ in range(10):
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (second >> _HALF) ^ c1 ^ k0,
            second & _LOW,
            (first >> _HALF) ^ c3 ^ k1,
            first & _LOW,
        )
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return np.stack([c0, c1, c2, c3], axis=-1)


def uniform(seed: int, positions: np.ndarray, count: int) -> np.ndarray:
    """`count` numbers in [0, 1) for each position, float64 [len(positions), count]."""
    return _words(seed, _AUGMENT, np.asarray(positions), count) / 2.0**32


def words(seed: int, count: int) -> np.ndarray:
    """`count` random 32-bit words, uint64 [count]."""
    return _words(seed, _WORDS, np.arange(-(-count // 4)), 4).ravel()[:count]


def shuffled(
    seed: int, positions: np.ndarray, num_examples: int, repeats: int = 1
) -> np.ndarray:
    """The example at each position of an endless run over a set, int64.

    Positions e * num_examples .. (e + 1) * num_examples - 1 are epoch e; each epoch
    holds every example once, in an order of its own. Any position costs the same, and
    nothing is stored: the order is a Feistel network keyed by (seed, epoch) on the next
    square number, walked until it lands inside the set (Black and Rogaway 2002,
    "Ciphers with arbitrary finite domains").

    Args:
      repeats: how often an epoch holds each example that it holds. It stays as long, so
        that it holds one of `repeats` examples: repeated augmentation, Hoffer et al.
        2020, arXiv 1901.09335, counted as in DeiT and timm.
    """
    positions = np.asarray(positions, np.int64)
    epochs, offsets = np.divmod(positions, num_examples)
    examples = np.empty_like(positions)
    if repeats > 1:
        offsets = _repeated(offsets, num_examples, repeats)
    for epoch in np.unique(epochs):
        inside = epochs == epoch
        examples[inside] = _permuted(seed, epoch, offsets[inside], num_examples)
    return examples


def _repeated(offsets: np.ndarray, num_examples: int, repeats: int) -> np.ndarray:
    """Which place of an epoch's order each of its offsets stands for.

    Copies lie `_COPIES_APART` and not next to one another, since neighbours are mixed:
    in blocks, each of which holds its places one after the other `repeats` times.
    """
    size = _COPIES_APART * repeats
    blocks, inside = np.divmod(offsets, size)
    lengths = np.minimum(size, num_examples - blocks * size)
    return blocks * _COPIES_APART + inside % -(-lengths // repeats)


def _permuted(
    seed: int, epoch: int, offsets: np.ndarray, num_examples: int
) -> np.ndarray:
    keys = _words(seed, _SHUFFLE, np.array([epoch]), _FEISTEL_ROUNDS)[0]
    side = np.uint64(max(_SMALLEST_SIDE, math.isqrt(num_examples - 1) + 1))
    walked = _feistel(offsets.astype(np.uint64), keys, side)
    while (outside := walked >= num_examples).any():
        walked[outside] = _feistel(walked[outside], keys, side)
    return walked.astype(np.int64)


def _feistel(numbers: np.ndarray, keys: np.ndarray, side: np.uint64) -> np.ndarray:
    """A permutation of 0 .. side**2 - 1, applied to `numbers`."""
    left, right = numbers // side, numbers % side
    for key in keys:
        left, right = right, (left + _mixed(right, key)) % side
    return left * side + right


def _mixed(words: np.ndarray, key: np.uint64) -> np.ndarray:
    """A hash of 32-bit words: MurmurHash3's finaliser, which moves every bit."""
    words = (words ^ key) & _LOW
    words = ((words ^ (words >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & _LOW
    words = ((words ^ (words >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & _LOW
    return words ^ (words >> np.uint64(16))


def _words(seed: int, stream: int, positions: np.ndarray, count: int) -> np.ndarray:
    """uint64 [len(positions), count] of 32-bit words."""
    blocks = -(-count // 4)
    counters = np.empty((len(positions), blocks, 4), np.uint64)
    counters[..., 0] = (positions & 0xFFFFFFFF)[:, None]
    counters[..., 1] = (positions >> 32)[:, None]
    counters[..., 2] = np.arange(blocks)
    counters[..., 3] = stream
    words = philox(counters, (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF))
    return words.reshape(len(positions), blocks * 4)[:, :count]
