"""Tests vit_jax/data/download.py against a server on this machine."""

import base64
import hashlib
import http.server
import os
import re
import threading

import numpy as np
import pytest

from vit_jax.data.download import fetch, verify

CONTENT = np.random.default_rng(0).bytes(3_000_000)
MD5 = hashlib.md5(CONTENT).hexdigest()


class Server(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT; the server object decides how well."""

    def do_GET(self):
        self.server.asked.append(self.headers["Range"])
        start = int(re.match(r"bytes=(\d+)-", self.headers["Range"])[1])
        if self.path != "/file":
            self.send_error(404)
        elif start >= len(CONTENT):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
            self.end_headers()
        elif self.server.resumes and self.headers["If-Range"] in (
            None,
            self.server.tag,
        ):
            self.answer(206, CONTENT[start:])
        else:
            self.answer(200, CONTENT)

    def answer(self, status, body):
        if self.server.chunked:
            self.protocol_version = "HTTP/1.1"
        self.send_response(status)
        if self.server.chunked:
            # The promised chunk never comes to its end.
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"100000\r\n" + body[:1000])
            self.close_connection = True
            return
        self.send_header("Content-Length", str(len(body)))
        for name, value in self.server.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: self.server.limit])
        self.server.limit = None

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        running.asked, running.resumes, running.limit = [], True, None
        running.chunked, running.tag, running.headers = False, '"1"', []
        running.url = f"http://127.0.0.1:{running.server_port}/file"
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def get(url, file, md5=MD5):
    seen = []
    fetch(url, file, md5, progress=lambda there, total: seen.append((there, total)))
    return seen


def test_a_file_is_downloaded_once(server, tmp_path):
    file = tmp_path / "new" / "archive.tar"
    seen = get(server.url, file)
    assert file.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert get(server.url, file) == []
    assert server.asked == ["bytes=0-"]


def test_a_broken_download_goes_on_where_it_stopped(server, tmp_path):
    server.limit = 1_000_000
    with pytest.raises(FileNotFoundError, match="ended after 1000000 of 3000000"):
        get(server.url, tmp_path / "archive.tar")
    assert not (tmp_path / "archive.tar").exists()
    seen = get(server.url, tmp_path / "archive.tar")
    assert (tmp_path / "archive.tar").read_bytes() == CONTENT
    assert server.asked == ["bytes=0-", "bytes=1000000-"]
    assert seen[0][0] > 1_000_000


def test_a_chunk_that_breaks_off_is_a_broken_download(server, tmp_path):
    server.chunked = True
    with pytest.raises(FileNotFoundError, match="can't be downloaded .IncompleteRead"):
        get(server.url, tmp_path / "archive.tar")


def test_a_file_that_was_put_there_is_checked_once(tmp_path):
    file = tmp_path / "archive.tar"
    file.write_bytes(CONTENT)
    seen = []

    def check():
        verify(file, MD5, "get it", progress=lambda *done: seen.append(done))

    check()
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    seen.clear()
    check()
    assert not seen
    file.write_bytes(CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]))
    os.utime(file, ns=(0, 0))
    with pytest.raises(ValueError, match="archive.tar is damaged: .*; get it"):
        check()
    # A note that is none counts for nothing.
    file.write_bytes(CONTENT)
    (tmp_path / "archive.tar.verified").write_text("{")
    check()
    assert seen


def test_a_server_that_cannot_resume_starts_over(server, tmp_path):
    (tmp_path / "archive.tar.part").write_bytes(CONTENT[:1000])
    server.resumes = False
    get(server.url, tmp_path / "archive.tar")
    assert (tmp_path / "archive.tar").read_bytes() == CONTENT


def test_a_complete_part_is_only_checked(server, tmp_path):
    (tmp_path / "archive.tar.part").write_bytes(CONTENT)
    get(server.url, tmp_path / "archive.tar")
    assert (tmp_path / "archive.tar").read_bytes() == CONTENT


def test_another_digest_is_refused_and_not_kept(server, tmp_path):
    with pytest.raises(ValueError, match="is damaged: its MD5 is .*run this again"):
        get(server.url, tmp_path / "archive.tar", md5="0" * 32)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "archive.tar").write_bytes(b"something else")
    with pytest.raises(ValueError, match="archive.tar is damaged.*delete it"):
        get(server.url, tmp_path / "archive.tar")


def test_without_a_server_it_says_which_file_to_put_where(server, tmp_path):
    missing = server.url.replace("/file", "/other")
    with pytest.raises(FileNotFoundError, match="server says 404.*put it at .*x.tar"):
        get(missing, tmp_path / "x.tar")
    with pytest.raises(FileNotFoundError, match="download it elsewhere and put it at"):
        get("http://127.0.0.1:9/file", tmp_path / "x.tar")


def test_without_a_digest_a_file_that_changed_is_downloaded_again(server, tmp_path):
    file = tmp_path / "weights.npz"
    get(server.url, file, md5=None)
    os.utime(file, ns=(0, 0))
    get(server.url, file, md5=None)
    assert len(server.asked) == 1
    for damaged in (CONTENT[:-5], CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])):
        file.write_bytes(damaged)
        os.utime(file, ns=(1, 1))
        get(server.url, file, md5=None)
        assert file.read_bytes() == CONTENT
    assert len(server.asked) == 3
    assert sorted(f.name for f in tmp_path.iterdir()) == [
        "weights.npz",
        "weights.npz.verified",
    ]


def test_a_file_that_somebody_put_there_without_a_digest_is_taken(server, tmp_path):
    (tmp_path / "weights.npz").write_bytes(b"mine")
    get(server.url, tmp_path / "weights.npz", md5=None)
    assert (tmp_path / "weights.npz").read_bytes() == b"mine" and not server.asked


def test_a_file_that_changed_on_the_server_is_not_pieced_together(server, tmp_path):
    server.limit, server.headers = 1_000_000, [("ETag", '"old"')]
    with pytest.raises(FileNotFoundError, match="ended after 1000000"):
        get(server.url, tmp_path / "weights.npz", md5=None)
    part = tmp_path / "weights.npz.part"
    part.write_bytes(b"x" * part.stat().st_size)
    get(server.url, tmp_path / "weights.npz", md5=None)
    assert (tmp_path / "weights.npz").read_bytes() == CONTENT


def test_a_part_longer_than_the_file_is_no_part_of_it(server, tmp_path):
    (tmp_path / "weights.npz.part").write_bytes(CONTENT + b"more")
    get(server.url, tmp_path / "weights.npz", md5=None)
    assert (tmp_path / "weights.npz").read_bytes() == CONTENT
    assert server.asked == [f"bytes={len(CONTENT) + 4}-", "bytes=0-"]


def test_the_digest_that_the_server_tells_is_checked(server, tmp_path):
    digest = base64.b64encode(bytes.fromhex("0" * 32)).decode()
    server.headers = [("x-goog-hash", f"crc32c=AAAAAA==,md5={digest}")]
    with pytest.raises(ValueError, match=f"is damaged: its MD5 is {MD5}, not 000"):
        get(server.url, tmp_path / "weights.npz", md5=None)
    assert not list(tmp_path.iterdir())
    digest = base64.b64encode(bytes.fromhex(MD5)).decode()
    server.headers = [
        ("x-goog-hash", "crc32c=AAAAAA=="),
        ("x-goog-hash", f"md5={digest}"),
    ]
    get(server.url, tmp_path / "weights.npz", md5=None)


def test_of_several_one_downloads(server, tmp_path):
    file = tmp_path / "weights.npz"
    threads = [
        threading.Thread(target=get, args=(server.url, file, None)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.read_bytes() == CONTENT and len(server.asked) == 1


def test_a_place_that_cannot_be_written_is_said(server, tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(FileNotFoundError, match="can't be downloaded .*put it at"):
        get(server.url, tmp_path / "file" / "weights.npz", md5=None)
