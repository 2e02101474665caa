"""Arrays of an .npz where they lie in the file, without a copy in memory."""

import io
import mmap
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

_LOCAL_HEADER = 30  # bytes before an entry's name
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def map_npz(file: Path) -> dict[str, np.ndarray] | None:
    """Name -> array, each in the file's own pages; None where some can't be mapped.

    Packed entries, objects and headers of other versions can't. Whoever writes to an
    array writes to memory of its own, never to the file; who writes to the file in
    place, or cuts it short, changes the arrays.

    Raises:
      zipfile.BadZipFile: a checksum is not that of the content, or the file is damaged.
      ValueError, TypeError: an entry is no array, or shorter than its header says.
    """
    with file.open("rb") as opened, zipfile.ZipFile(opened) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            return None
        pages = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
    arrays = {}
    for entry in entries:
        array = _array(_content(memoryview(pages), entry))
        if array is None:
            return None
        arrays[entry.filename.removesuffix(".npy")] = array
    return arrays


def _content(whole: memoryview, entry: zipfile.ZipInfo) -> memoryview:
    name_and_extra = entry.header_offset + 26
    lengths = np.frombuffer(whole, "<u2", 2, name_and_extra)
    start = entry.header_offset + _LOCAL_HEADER + int(lengths.sum(dtype=int))
    content = whole[start : start + entry.file_size]
    if zlib.crc32(content) != entry.CRC:
        raise zipfile.BadZipFile(f"Bad CRC-32 for file {entry.filename!r}")
    return content


def _array(content: memoryview) -> np.ndarray | None:
    """An entry's array; None where only NumPy's own reader knows."""
    start = io.BytesIO(content[: 2**16])
    read_header = _HEADERS.get(npy.read_magic(start))
    if read_header is None:
        return None
    shape, in_columns, dtype = read_header(start)
    if dtype.hasobject:
        return None
    order = "F" if in_columns else "C"
    return np.ndarray(shape, dtype, content[start.tell() :], order=order)
