"""Files from the web, checked by their digest and resumed where they stopped."""

import contextlib
import hashlib
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

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
    for the rest.

    Args:
      md5: the digest; None where nobody published one: the length alone is checked.
      progress: called with bytes that are there and bytes in all, None if unknown.

    Raises:
      FileNotFoundError: it can't be downloaded; says which file to put where.
      ValueError: the file there, or the download, has another digest.
    """
    if file.exists():
        verify(file, md5, "delete it, and it is downloaded again", progress=progress)
        return
    part = file.with_name(file.name + ".part")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        _download(url, part, progress)
    except (OSError, http.client.HTTPException) as error:
        raise FileNotFoundError(
            f"{url} can't be downloaded ({error}); download it elsewhere and put it at "
            f"{file}, or run this again to go on."
        ) from error
    try:
        verify(part, md5, "run this again", progress=progress)
    except ValueError:
        part.unlink()
        raise
    part.replace(file)
    if _note(part).exists():
        _note(part).replace(_note(file))


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
    digest = hashlib.md5(usedforsecurity=False)
    with open(file, "rb") as opened:
        while block := opened.read(_BLOCK):
            digest.update(block)
            progress(opened.tell(), seen.st_size)
    if digest.hexdigest() != md5:
        raise ValueError(
            f"{os.fspath(file)} is damaged: its MD5 is {digest.hexdigest()}, not "
            f"{md5}; {advice}."
        )
    # In a folder that can't be written the check is made each time.
    with contextlib.suppress(OSError):
        _note(file).write_text(json.dumps(state))


def _note(file: Path) -> Path:
    return file.with_name(file.name + ".verified")


def _noted(file: Path) -> dict | None:
    try:
        return json.loads(_note(file).read_text())
    except (OSError, ValueError):
        return None


def _download(url: str, part: Path, progress: Progress) -> None:
    there = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={there}-"})
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and there:
            # Nothing is left to ask for.
            return
        raise OSError(f"the server says {error.code} {error.reason}") from error
    with response:
        resumed = response.status == 206
        there = there if resumed else 0
        length = response.headers.get("Content-Length")
        total = there + int(length) if length else None
        with open(part, "ab" if resumed else "wb") as output:
            while block := response.read(_BLOCK):
                output.write(block)
                there += len(block)
                progress(there, total)
    if total is not None and there < total:
        raise OSError(f"the connection ended after {there} of {total} bytes")
