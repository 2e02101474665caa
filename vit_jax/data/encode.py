"""Examples of a source as the records that `prepare` stores."""

import dataclasses
import io

import numpy as np
from PIL import Image as pillow

from vit_jax.data.decode import UnreadableImage, decode
from vit_jax.data.pixels import as_image
from vit_jax.data.records import pack
from vit_jax.data.sources import Source

_JPEG_QUALITY = 95


@dataclasses.dataclass(frozen=True)
class Records:
    """Finished records, and the names of those whose image can't be decoded."""

    records: tuple[bytes, ...]
    unreadable: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Encoder:
    """Makes the records of any chunk of examples; workers have a copy of it."""

    source: Source
    shorter_side: int
    chunks: tuple[range, ...]

    def __call__(self, number: int) -> Records:
        """The records of chunk `number`.

        Raises:
          UnreadableImage: a file is not there or can't be opened.
        """
        records, unreadable = [], []
        for example in self.chunks[number]:
            try:
                image, label, name = self.source[example]
            except OSError as error:
                raise UnreadableImage(
                    f"{self.source.name(example)} can't be read ({error}); bring it "
                    "back, or take it out of the source and prepare into a new folder."
                ) from error
            try:
                data = stored_bytes(image, self.shorter_side)
            except UnreadableImage:
                # Kept as it is: data.bad_images decides when it is read.
                data = image if isinstance(image, bytes) else b""
                unreadable.append(name)
            records.append(pack(data, label, name))
        return Records(tuple(records), tuple(unreadable))


def stored_bytes(image: bytes | np.ndarray, shorter_side: int) -> bytes:
    """The image file that is stored for an image; see `prepare`.

    Raises:
      UnreadableImage: it can't be decoded.
    """
    if not isinstance(image, bytes):
        grey = image.ndim == 2 or image.shape[-1] <= 2
        image = _encoded(decode(image, 1 if grey else 3), "PNG")
    pixels = decode(image, 3)
    scale = shorter_side / min(pixels.shape[:2])
    if not shorter_side or scale >= 1:
        return image
    rows, columns = (round(side * scale) for side in pixels.shape[:2])
    shrunk = as_image(pixels).resize((columns, rows), pillow.Resampling.BICUBIC)
    return _encoded(np.asarray(shrunk), "JPEG")


def _encoded(pixels: np.ndarray, kind: str) -> bytes:
    file = io.BytesIO()
    as_image(pixels).save(file, kind, quality=_JPEG_QUALITY)
    return file.getvalue()
