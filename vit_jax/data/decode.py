"""Images of any kind as uint8 pixels, by one written rule for each kind.

    grey                     the value in each channel
    1 bit                    0 and 255
    palette                  the palette's colours
    alpha, transparency      laid on white
    16 bit, grey             divided by 257
    16 bit, colour           the high byte, as Pillow and all that builds on it has it
    CMYK                     as its inks look on paper, Adobe's inverted ones too
    animated, several pages  the first frame
    EXIF orientation         applied
    32-bit float             refused, for it has no agreed range
    more than 89 million pixels, truncated, empty, no image    refused

The bytes decide what a file is, not its name.
"""

import io
import struct
from typing import Protocol

import numpy as np
import simplejpeg
from PIL import Image as pillow
from PIL import ImageOps, UnidentifiedImageError

from vit_jax.data.orientation import TURNS, may_be_turned, turned
from vit_jax.data.pixels import as_array, as_image, drafted, plain

# Pillow has some forty readers, of which one runs Ghostscript: bytes from strangers
# meet these alone. JPEG's hands on MPO, what cameras write with several pictures.
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
pillow.init()
_JPEG_SHRINKS = (1, 2, 4, 8)
_JPEG_SPACES = {"Gray", "YCbCr", "RGB"}
_ORIENTATION = 0x0112
_ARRAY_CHANNELS = (1, 2, 3, 4)
# With 1 bit, 8, 16 or 32 bits, floats, alpha.
_GREY_MODES = ("1", "L", "I", "F")
_REASONS = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    struct.error,
    pillow.DecompressionBombError,
    pillow.DecompressionBombWarning,
)


# Of libjpeg's warning, where the end of the image comes before all of its pixels.
_LACKING = "premature end"


class UnreadableImage(ValueError):
    """The bytes are no image that can be decoded."""


class Picture(Protocol):
    """An image whose size is known and whose pixels are decoded when asked for."""

    shape: tuple[int, int]

    def pixels(self) -> np.ndarray:
        """uint8 [Y, X, C], as exact as the format has them.

        Raises:
          UnreadableImage: the bytes can't be decoded.
        """

    def draft(self, shrink: int) -> np.ndarray:
        """uint8 [ceil(Y / shrink), ceil(X / shrink), C] in the quickest way.

        Each pixel is about the mean over `shrink` rows and columns.

        Args:
          shrink: a power of two.

        Raises:
          UnreadableImage: the bytes can't be decoded.
        """


def open_picture(image: bytes | np.ndarray, channels: int) -> Picture:
    """A picture of an encoded image, or of uint8 pixels [Y, X] or [Y, X, C].

    Args:
      image: pixels have 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGB, alpha) channels.
      channels: 3 for RGB or 1 for grey.

    Raises:
      UnreadableImage: the bytes are no image, or not one that is accepted.
    """
    if not isinstance(image, bytes):
        return _ArrayPicture(image, channels)
    if image[:2] == b"\xff\xd8":
        try:
            return _JpegPicture(image, channels)
        except ValueError:
            pass
    return _FilePicture(image, channels)


def decode(image: bytes | np.ndarray, channels: int) -> np.ndarray:
    """uint8 [Y, X, channels] from an encoded image, or from pixels [Y, X] or [Y, X, C].

    Raises:
      UnreadableImage: the bytes can't be decoded.
    """
    return open_picture(image, channels).pixels()


def has_colour(image: bytes | np.ndarray) -> bool:
    """Whether an image is of a kind that holds colours, by its header alone.

    False for what is no image.
    """
    if not isinstance(image, bytes):
        return image.ndim == 3 and image.shape[-1] >= 3
    try:
        with pillow.open(io.BytesIO(image), formats=_FORMATS) as opened:
            return not opened.mode.startswith(_GREY_MODES)
    except _REASONS:
        return False


class _ArrayPicture:
    """Pixels that are there already."""

    def __init__(self, pixels: np.ndarray, channels: int):
        if pixels.ndim == 2:
            pixels = pixels[..., None]
        known = pixels.ndim == 3 and pixels.shape[-1] in _ARRAY_CHANNELS
        if not known or not pixels.size or pixels.dtype != np.uint8:
            raise UnreadableImage(
                f"its pixels are {pixels.dtype} {list(pixels.shape)}; they must be "
                "uint8 [Y, X] or [Y, X, C] with 1 to 4 channels"
            )
        if pixels.shape[-1] != channels:
            mode = "RGB" if channels == 3 else "L"
            pixels = as_array(plain(as_image(pixels)).convert(mode))
        self.shape = pixels.shape[:2]
        self._pixels = pixels

    def pixels(self) -> np.ndarray:
        return self._pixels

    def draft(self, shrink: int) -> np.ndarray:
        return drafted(as_image(self._pixels), shrink)


class _JpegPicture:
    """A grey or colour JPEG; raises ValueError where it is anything else."""

    def __init__(self, data: bytes, channels: int):
        rows, columns, space, _ = simplejpeg.decode_jpeg_header(data)
        if space not in _JPEG_SPACES or rows * columns > pillow.MAX_IMAGE_PIXELS:
            raise ValueError(space)
        self._stored_shape = (rows, columns)
        self._turn = TURNS[_jpeg_orientation(data)]
        self.shape = (columns, rows) if self._turn[0] else (rows, columns)
        self._data = data
        self._channels = channels

    def pixels(self) -> np.ndarray:
        try:
            stored = simplejpeg.decode_jpeg(
                self._data, "RGB" if self._channels == 3 else "GRAY"
            )
        except ValueError as error:
            return self._by_pillow(error).pixels()
        return turned(stored, *self._turn)

    def draft(self, shrink: int) -> np.ndarray:
        scaled = min(shrink, _JPEG_SHRINKS[-1])
        rows, columns = (-(-side // scaled) for side in self._stored_shape)
        try:
            stored = simplejpeg.decode_jpeg(
                self._data,
                "RGB" if self._channels == 3 else "GRAY",
                min_height=rows,
                min_width=columns,
            )
        except ValueError as error:
            return self._by_pillow(error).draft(shrink)
        pixels = turned(stored, *self._turn)
        if shrink == scaled:
            return pixels
        return drafted(as_image(pixels), shrink // scaled)

    def _by_pillow(self, error: ValueError) -> "_FilePicture":
        """Harmless faults, such as stray bytes, are errors here as well: Pillow tells.
        Pixels that the data doesn't hold are none of these, and Pillow makes them grey.
        """
        if _LACKING in str(error).lower():
            raise UnreadableImage("its data ends early") from error
        return _FilePicture(self._data, self._channels)


class _FilePicture:
    """Any file that Pillow reads."""

    def __init__(self, data: bytes, channels: int):
        if not data:
            raise UnreadableImage("the file is empty")
        try:
            self._opened = pillow.open(io.BytesIO(data), formats=_FORMATS)
            orientation = self._opened.getexif().get(_ORIENTATION, 1)
        except _REASONS as error:
            raise UnreadableImage(_reason(error)) from error
        columns, rows = self._opened.size
        if rows * columns > pillow.MAX_IMAGE_PIXELS:
            raise UnreadableImage(f"{rows}x{columns} pixels are more than is accepted")
        self.shape = (
            (columns, rows) if TURNS.get(orientation, TURNS[1])[0] else (rows, columns)
        )
        self._channels = channels

    def pixels(self) -> np.ndarray:
        return as_array(self._converted())

    def draft(self, shrink: int) -> np.ndarray:
        return drafted(self._converted(), shrink)

    def _converted(self) -> pillow.Image:
        try:
            upright = ImageOps.exif_transpose(self._opened)
            return plain(upright).convert("RGB" if self._channels == 3 else "L")
        except _REASONS as error:
            raise UnreadableImage(_reason(error)) from error


def _jpeg_orientation(data: bytes) -> int:
    if not may_be_turned(data):
        return 1
    try:
        opened = pillow.open(io.BytesIO(data), formats=_FORMATS)
        orientation = opened.getexif().get(_ORIENTATION, 1)
    except _REASONS as error:
        raise ValueError("EXIF") from error
    return orientation if orientation in TURNS else 1


def _reason(error: Exception) -> str:
    if isinstance(error, pillow.DecompressionBombError):
        return "it has more pixels than are accepted"
    if isinstance(error, UnidentifiedImageError):
        return "it is no image of a known kind"
    return str(error) or type(error).__name__
