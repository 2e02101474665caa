"""Writing a file of an object store only where nobody else has written it meanwhile.

Google's store can hold a write to the generation that was read before, so that of two
who came at once one alone succeeds. TensorStore, which Orbax writes checkpoints with,
knows how.
"""

from typing import Any, NamedTuple

from etils import epath

_SCHEME = "gs://"


class Version(NamedTuple):
    """What a file said, "" where there was none, and which generation of it."""

    text: str
    generation: Any


class ConditionalFile:
    """A file at gs://BUCKET/PATH.

    All methods may raise ValueError or OSError where the store can't be reached.
    """

    def __init__(self, file: epath.Path):
        import tensorstore as ts

        bucket, _, path = str(file).removeprefix(_SCHEME).partition("/")
        self._store = ts.KvStore.open(
            {"driver": "gcs", "bucket": bucket, "path": path}
        ).result()

    @staticmethod
    def suits(file: epath.Path) -> bool:
        """Whether `file` lies in a store that can do this."""
        return str(file).startswith(_SCHEME)

    def read(self) -> Version:
        """The newest version."""
        found = self._store.read("").result()
        return Version(found.value.decode(), found.stamp.generation)

    def write(self, text: str | None, after: Version) -> Version | None:
        """The new version; None, and nothing is written, where another came in between.

        Args:
          text: None deletes the file.
          after: the version that this one follows.
        """
        data = None if text is None else text.encode()
        stamp = self._store.write("", data, if_equal=after.generation).result()
        return Version(text or "", stamp.generation) if stamp.generation else None
