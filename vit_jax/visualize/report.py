"""Pictures as files: a PNG each, and one page that needs no other file."""

import base64
import dataclasses
import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from etils import epath

from vit_jax.visualize.figures import to_png

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = "report.html"

_STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; color: #222; margin: 2em auto;
       max-width: 60em; padding: 0 1em; }
h1, h2 { line-height: 1.2; }
h2 { margin-top: 2em; }
img { max-width: 100%; height: auto; }
table { border-collapse: collapse; }
td { padding: 0.1em 1.2em 0.1em 0; vertical-align: top; }
td:first-child { color: #666; }
.notes { color: #666; }"""


@dataclasses.dataclass(frozen=True)
class Picture:
    """A figure with what one reads beside it.

    Attributes:
      name: of its file, without ending.
      title: a heading.
      caption: what it shows and how to read it.
      figure: of matplotlib.
    """

    name: str
    title: str
    caption: str
    figure: "Figure"


def write_report(
    folder: epath.Path,
    pictures: Sequence[Picture],
    *,
    title: str,
    facts: Mapping[str, str],
    notes: Sequence[str] = (),
) -> epath.Path:
    """Writes NAME.png of each picture and `report.html`; returns the page's path.

    Args:
      folder: made if need be.
      facts: what is said of the model, name -> value.
      notes: what is missing, and why.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sections = []
    for picture in pictures:
        png = to_png(picture.figure)
        (folder / f"{picture.name}.png").write_bytes(png)
        sections.append(_section(picture, png))
    page = folder / PAGE
    page.write_text(_page(title, facts, sections, notes))
    return page


def _section(picture: Picture, png: bytes) -> str:
    title, caption = html.escape(picture.title), html.escape(picture.caption)
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return (
        f'<h2 id="{html.escape(picture.name)}">{title}</h2>\n<p>{caption}</p>\n'
        f'<img alt="{title}" src="{source}">\n'
    )


def _page(
    title: str, facts: Mapping[str, str], sections: Sequence[str], notes: Sequence[str]
) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>\n"
        for name, value in facts.items()
    )
    listed = "".join(f"<li>{html.escape(note)}</li>\n" for note in notes)
    missing = f'<ul class="notes">\n{listed}</ul>\n' if notes else ""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{_STYLE}\n</style>\n"
        f"<h1>{html.escape(title)}</h1>\n<table>\n{rows}</table>\n{missing}"
        f"{''.join(sections)}</html>\n"
    )
