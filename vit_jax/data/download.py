"""Files from the web, checked by their digest and resumed where they stopped."""

import base64
import contextlib
import fcntl
import hashlib
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_BLOCK = 2**20
_TIMEOUT_SECONDS = 60

# (bytes that are there, bytes in all or None if unknown).
Progress = Callable[[int, int | None], None]


def fetch(
    url: str,
    file: Path,
    md5: str | None,
    *,
    progress: Progress,
) -> None:
    """Makes `file` the one of that digest, downloading what is missing of it.

    What was downloaded before a stop lies in `file`.part, and the next call asks only
    for the rest, if the server still has the same file. Of several processes one
    downloads, and the others wait for it.

    Args:
      md5: the digest; None where nobody published one. Then the length and the digest
        that the server tells are checked, and a file that changed since is downloaded
        again.
      progress: called with bytes that are there and bytes in all, None if unknown.

    Raises:
      FileNotFoundError: it can't be downloaded; says which file to put where.
      ValueError: the file there, or the download, has another digest.
    """
    if _is_whole(file, md5, progress):
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with _alone(file):
            # Another process may have done it meanwhile.
            if not _is_whole(file, md5, progress):
                _make(url, file, md5, progress)
    except (OSError, http.client.HTTPException) as error:
        raise FileNotFoundError(
            f"{url} can't be downloaded ({error}); download it elsewhere and put it at "
            f"{file}, or run this again to go on."
        ) from error


def _is_whole(file: Path, md5: str | None, progress: Progress) -> bool:
    """Whether the file is there, as it was when it was downloaded."""
    if not file.exists():
        return False
    if md5 is not None:
        verify(file, md5, "delete it, and it is downloaded again", progress=progress)
        return True
    state = _noted(file)
    # Without a note somebody put it there, who knows better.
    if state is None or state.get("size") is None:
        return True
    seen = file.stat()
    if (seen.st_size, seen.st_mtime_ns) == (state["size"], state.get("mtime_ns")):
        return True
    return seen.st_size == state["size"] and _md5(file, progress) == state.get("md5")


def _make(url: str, file: Path, md5: str | None, progress: Progress) -> None:
    part = file.with_name(file.name + ".part")
    told = _download(url, part, progress)
    wanted = md5 or told or _md5(part, progress)
    try:
        verify(part, wanted, "run this again", progress=progress)
    except ValueError:
        _forget(part)
        raise
    part.replace(file)
    _source(part).unlink(missing_ok=True)
    if _note(part).exists():
        _note(part).replace(_note(file))


@contextlib.contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Lets one process of this machine in at a time."""
    place = file.with_name(file.name + ".lock")
    with open(place, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Whoever waits holds it open still, and then finds the file.
            place.unlink(missing_ok=True)


def verify(file: Path, md5: str | None, advice: str, *, progress: Progress) -> None:
    """Proves that a file has this digest.

    That takes minutes for a large one, so the outcome is kept in `file`.verified, and
    holds as long as the file's size and time stay the same.

    Args:
      md5: the digest; None proves nothing.
      advice: what to do if it has another one.
      progress: see `fetch`; counts the bytes that were looked at.

    Raises:
      ValueError: it has another digest.
    """
    if md5 is None:
        return
    seen = file.stat()
    state = {"md5": md5, "size": seen.st_size, "mtime_ns": seen.st_mtime_ns}
    if _noted(file) == state:
        return
    found = _md5(file, progress)
    if found != md5:
        raise ValueError(
            f"{os.fspath(file)} is damaged: its MD5 is {found}, not {md5}; {advice}."
        )
    # In a folder that can't be written the check is made each time.
    with contextlib.suppress(OSError):
        _note(file).write_text(json.dumps(state))


def _md5(file: Path, progress: Progress) -> str:
    digest, size = hashlib.md5(usedforsecurity=False), file.stat().st_size
    with open(file, "rb") as opened:
        while block := opened.read(_BLOCK):
            digest.update(block)
            progress(opened.tell(), size)
    return digest.hexdigest()


def _note(file: Path) -> Path:
    return file.with_name(file.name + ".verified")


def _source(part: Path) -> Path:
    """What the server called the file of which a part is there."""
    return part.with_name(part.name + ".etag")


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _source(part).unlink(missing_ok=True)


def _noted(file: Path) -> dict | None:
    try:
        state = json.loads(_note(file).read_text())
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) else None


def _download(url: str, part: Path, progress: Progress) -> str | None:
    """Fills `part`; gives the MD5 that the server tells, None where it tells none."""
    there = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={there}-"}
    if there and _source(part).exists():
        # Of a file that changed the server sends all.
        headers["If-Range"] = _source(part).read_text()
    try:
        response = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=_TIMEOUT_SECONDS
        )
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416 or not there:
            raise OSError(f"the server says {error.code} {error.reason}") from error
        if error.headers.get("Content-Range", "").endswith(f"/{there}"):
            # Nothing is left to ask for.
            return _told(error.headers)
        _forget(part)
        return _download(url, part, progress)
    with response:
        resumed = response.status == 206
        if tag := response.headers.get("ETag", response.headers.get("Last-Modified")):
            _source(part).write_text(tag)
        _receive(response, part, there if resumed else 0, progress)
        return _told(response.headers)


def _receive(response: Any, part: Path, there: int, progress: Progress) -> None:
    length = response.headers.get("Content-Length")
    total = there + int(length) if length else None
    with open(part, "ab" if there else "wb") as output:
        while block := response.read(_BLOCK):
            output.write(block)
            there += len(block)
            progress(there, total)
    if total is not None and there < total:
        raise OSError(f"the connection ended after {there} of {total} bytes")


def _told(headers: Any) -> str | None:
    """The MD5 that Google's storage tells of a file."""
    for value in headers.get_all("x-goog-hash", []):
        for entry in value.split(","):
            kind, _, text = entry.strip().partition("=")
            if kind == "md5":
                return base64.b64decode(text).hex()
    return None
