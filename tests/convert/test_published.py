"""Tests vit_jax/convert/published.py against a server on this machine."""

import io

import pytest

from tests.convert.ours import assert_same_arrays, put
from tests.convert.server import serving
from tests.convert.test_official import weights_of
from vit_jax.convert import published
from vit_jax.convert.published import PUBLISHED, is_published, local_file
from vit_jax.convert.source import read
from vit_jax.convert.target import encode
from vit_jax.models.variants import VARIANTS


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("VIT_JAX_CACHE", str(tmp_path / "cache"))
    arrays = encode(weights_of("token"), "npz").arrays
    with serving(put(tmp_path / "served", "npz", arrays).read_bytes()) as running:
        monkeypatch.setattr(published, "_SERVER", running.url)
        yield running


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("augreg:B/16", "/vit_models/augreg/B_16-i21k-300ep-lr_0.001-aug_medium1"),
        ("gs://vit_models/imagenet21k/R50+ViT-B_16.npz", "/vit_models/imagenet21k/R50"),
        ("imagenet21k:R50+B/16", "/vit_models/imagenet21k/R50%2BViT-B_16.npz"),
        ("gsam:S/32", "/vit_models/gsam/ViT-S_32.npz"),
        ("LINK/some/where.npz", "/some/where.npz"),
    ],
)
def test_files_are_downloaded_once(server, address, path):
    address = address.replace("LINK/", server.url)
    for _ in range(2):
        assert_same_arrays(read(address).params, weights_of("token").params)
    (asked,) = server.asked
    assert asked.startswith(path) and asked.endswith(".npz")
    assert "+" not in asked


def test_equal_names_of_different_links_are_kept_apart(server):
    files = {local_file(f"{server.url}{folder}/x.npz") for folder in "ab"}
    assert len(files) == 2


def test_absent_files_say_where_to_put_them(server, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent.npz can't be downloaded"):
        read(f"{server.url}absent.npz")
    assert not list((tmp_path / "cache").glob("*.npz"))


class Terminal(io.StringIO):
    """Standard error that somebody watches."""

    def isatty(self):
        return True


def test_a_bar_counts_the_bytes_on_a_terminal_alone(server, monkeypatch):
    said = Terminal()
    monkeypatch.setattr("sys.stderr", said)
    local_file(f"{server.url}some/where.npz")
    monkeypatch.undo()
    size = f"/{len(server.content) // 1000}k "
    assert "where.npz: " in said.getvalue() and size in said.getvalue()


def test_a_bar_is_not_for_logs(server, capsys):
    local_file(f"{server.url}some/where.npz")
    assert capsys.readouterr().err == ""


def test_progress_counts_to_the_length_of_the_file(server):
    told = []
    local_file(f"{server.url}x.npz", progress=lambda *counts: told.append(counts))
    assert told[-1] == (len(server.content), len(server.content))


def test_names_are_of_our_models_and_others_are_refused(tmp_path):
    names = {name.partition(":")[2].partition("@")[0] for name in PUBLISHED}
    assert names <= set(VARIANTS)
    assert all(is_published(link) for link in PUBLISHED.values())
    with pytest.raises(ValueError, match="augreg:B/17 is not published; there are"):
        local_file("augreg:B/17", cache=tmp_path)
    with pytest.raises(ValueError, match="sam:H/14 is not published"):
        local_file("sam:H/14", cache=tmp_path)
    with pytest.raises(ValueError, match="a line that anybody may change; give an htt"):
        local_file("http://example.org/x.npz", cache=tmp_path)
    assert not is_published("gs://my-bucket/run") and not is_published("runs/mine")
