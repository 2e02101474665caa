"""How a camera was held: the eight orientations of EXIF."""

import numpy as np

# Of a JPEG's segments: what stands before the pixels, and APP1.
_START_OF_SCAN, _METADATA = b"\xda", b"\xe1"
# Of eight EXIF orientations, (transpose, flip rows, flip columns) in this order.
TURNS = {
    1: (False, False, False),
    2: (False, False, True),
    3: (False, True, True),
    4: (False, True, False),
    5: (True, False, False),
    6: (True, False, True),
    7: (True, True, True),
    8: (True, True, False),
}


def may_be_turned(data: bytes) -> bool:
    """Whether a JPEG may say that it is turned, in EXIF or XMP: whether a segment APP1
    comes before its pixels, or the segments can't be walked."""
    place = 2
    while data[place : place + 1] == b"\xff":
        marker = data[place + 1 : place + 2]
        if marker == b"\xff":
            # A fill byte.
            place += 1
            continue
        if marker == _START_OF_SCAN:
            return False
        if marker == _METADATA:
            return True
        place += 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    return True


def turned(
    pixels: np.ndarray, transpose: bool, flip_rows: bool, flip_columns: bool
) -> np.ndarray:
    """uint8 [Y, X, C], or [X, Y, C] where it is transposed, turned as `TURNS` says."""
    if transpose:
        pixels = pixels.swapaxes(0, 1)
    if flip_rows:
        pixels = pixels[::-1]
    if flip_columns:
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)
