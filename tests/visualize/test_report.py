"""PNG files and a page that needs no other file."""

import base64
import re
import sys

import pytest
from etils import epath

from vit_jax.visualize.figures import new_figure, require
from vit_jax.visualize.report import Picture, write_report


def test_the_page_holds_every_picture_and_escapes_what_it_says(tmp_path):
    pictures = []
    for name in ("first", "second"):
        figure = new_figure(1, 1)
        figure.suptitle(name)
        pictures.append(Picture(name, f"<{name}>", "caption & more", figure))
    page = write_report(
        epath.Path(tmp_path / "deep" / "report"),
        pictures,
        title="<title>",
        facts={"a": "<b>"},
        notes=["no <c>"],
    )
    text = page.read_text()
    files = sorted(file.name for file in page.parent.iterdir())
    assert files == ["first.png", "report.html", "second.png"]
    embedded = re.findall(r'src="data:image/png;base64,([^"]+)"', text)
    assert [base64.b64decode(data) for data in embedded] == [
        (page.parent / f"{name}.png").read_bytes() for name in ("first", "second")
    ]
    assert "http" not in text and "<script" not in text
    for said in ("&lt;title&gt;", "&lt;first&gt;", "caption &amp; more", "&lt;b&gt;"):
        assert said in text
    assert "no &lt;c&gt;" in text


def test_without_matplotlib_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for call in (require, lambda: new_figure(1, 1)):
        with pytest.raises(ValueError, match=r"pip install 'vit_jax\[plots\]'"):
            call()
