"""A picture of what the model will see."""

from collections.abc import Sequence

import numpy as np
from PIL import Image as pillow
from PIL import ImageDraw, ImageFont

_CELL = 144
_LINE = 14
_MARGIN = 6
_COLUMNS = 8
_FONT_SIZE = 11


def contact_sheet(
    rows: Sequence[tuple[str, Sequence[np.ndarray], Sequence[str]]],
) -> pillow.Image:
    """Images in blocks of eight columns, the same example in one column.

    Args:
      rows: (title, images uint8 [Y, X, C] of any size, a caption for each image); each
        row has as many images. A caption may have several lines.
    """
    lines = 1 + max(text.count("\n") for *_, captions in rows for text in captions)
    count = len(rows[0][1])
    blocks = -(-count // _COLUMNS)
    cell = _CELL + lines * _LINE + _MARGIN
    height = blocks * len(rows) * (cell + _LINE) + _MARGIN
    width = min(count, _COLUMNS) * (_CELL + _MARGIN) + _MARGIN
    sheet = pillow.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(_FONT_SIZE)
    top = _MARGIN
    for block in range(blocks):
        chosen = range(block * _COLUMNS, min((block + 1) * _COLUMNS, count))
        for title, images, captions in rows:
            draw.text((_MARGIN, top), title, fill="gray", font=font)
            top += _LINE
            for column, index in enumerate(chosen):
                left = _MARGIN + column * (_CELL + _MARGIN)
                sheet.paste(_fitted(images[index]), (left, top))
                for line, text in enumerate(captions[index].split("\n")):
                    place = left, top + _CELL + line * _LINE
                    draw.text(place, _shortened(text, font), fill="black", font=font)
            top += cell
    return sheet


def _shortened(text: str, font: ImageFont.ImageFont) -> str:
    """As much of the text as a cell is wide."""
    if font.getlength(text) <= _CELL:
        return text
    while font.getlength(f"{text}…") > _CELL:
        text = text[:-1]
    return f"{text}…"


def _fitted(image: np.ndarray) -> pillow.Image:
    """The image in one cell, its aspect kept; small ones with visible pixels."""
    picture = pillow.fromarray(np.squeeze(image)).convert("RGB")
    scale = _CELL / max(picture.size)
    size = tuple(max(1, round(side * scale)) for side in picture.size)
    kind = pillow.Resampling.NEAREST if scale > 2 else pillow.Resampling.BICUBIC
    return picture.resize(size, kind)
