"""What tells the examples of one source from those of another, without reading them."""

import hashlib
import os
from collections.abc import Iterator

from vit_jax.data.sources import Source

_AT_ONCE = 10_000


def fingerprint(source: Source) -> str:
    """Text that changes with the names, labels, order or number of a source's examples.

    Files are not read, so that new pixels under an old name go unnoticed.

    What all names begin with is left out, so that the same folder may be spelt
    otherwise, or have moved.
    """
    ends = [end for names in _names(source) for end in (min(names), max(names))]
    shared = len(os.path.commonprefix(ends))
    digest = hashlib.blake2b(source.labels().tobytes(), digest_size=16)
    for names in _names(source):
        text = "".join(f"{name[shared:]}\0" for name in names)
        digest.update(os.fsencode(text))
    return digest.hexdigest()


def _names(source: Source) -> Iterator[list[str]]:
    """All names, some at a time: a large set has gigabytes of them."""
    for start in range(0, len(source), _AT_ONCE):
        stop = min(start + _AT_ONCE, len(source))
        yield [source.name(index) for index in range(start, stop)]
