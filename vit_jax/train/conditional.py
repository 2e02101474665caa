"""Writing a file only where nobody else has written it meanwhile.

Google's store can hold a write to the generation that was read before, so that of two
who came at once one alone succeeds. TensorStore, which Orbax writes checkpoints with,
knows how. Elsewhere a look before the write is all there is.
"""

import os
import uuid
from typing import Any, NamedTuple

from etils import epath

from vit_jax.workdir import is_store

_SCHEME = "gs://"


class Version(NamedTuple):
    """What a file said, "" where there was none, and which generation of it."""

    text: str
    generation: Any = None


class ConditionalFile:
    """A file at gs://BUCKET/PATH.

    Attributes:
      exact: a write can't cover another's, whatever comes between look and write.
    """

    exact = True

    def __init__(self, file: epath.Path):
        import tensorstore as ts

        bucket, _, path = str(file).removeprefix(_SCHEME).partition("/")
        # Few tries: what the network loses is for the caller to make up for.
        context = {"gcs_request_retries": {"max_retries": 3}}
        self._store = ts.KvStore.open(
            {"driver": "gcs", "bucket": bucket, "path": path, "context": context}
        ).result()

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


class PlainFile:
    """A file anywhere else, with the same methods. What another writes between the look
    and the write is covered without a word."""

    exact = False

    def __init__(self, file: epath.Path):
        self._file = file

    def read(self) -> Version:
        """The newest version."""
        return Version(self._file.read_text() if self._file.exists() else "")

    def write(self, text: str | None, after: Version) -> Version | None:
        """As `ConditionalFile.write`."""
        if self.read() != after:
            return None
        if text is None:
            self._file.unlink(missing_ok=True)
        elif is_store(self._file):
            self._file.write_text(text)
        else:
            # Whole or not at all, as stores write: a reader must not meet an empty one.
            fresh = self._file.parent / f"{self._file.name}.{uuid.uuid4().hex}.tmp"
            fresh.write_text(text)
            fresh.replace(self._file)
        return Version(text or "")


def open_conditional(file: epath.Path) -> ConditionalFile | PlainFile:
    """The stricter of the two that the place of `file` allows."""
    kind = ConditionalFile if os.fspath(file).startswith(_SCHEME) else PlainFile
    return kind(file)
