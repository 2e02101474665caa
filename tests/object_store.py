"""An object store in this process's memory, for whatever is asked of gs:// paths.

`epath` reaches it as it would gcsfs; TensorStore, which opens gs:// by itself, over
loopback, by the few calls of Google's JSON API that it makes.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from fsspec.implementations.memory import MemoryFileSystem

_WRITING = threading.Lock()


class ObjectStore(MemoryFileSystem):
    """Objects by path; there is no appending."""

    protocol = ("gcs", "gs")
    store = {}
    pseudo_dirs = [""]
    cachable = False

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(str(path).removeprefix("gs:"))

    def open(self, path, mode="rb", **options):
        if "a" in mode:
            raise NotImplementedError("an object store can't append")
        return super().open(path, mode, **options)

    def empty(self) -> None:
        """Forgets all objects."""
        self.store.clear()
        self.pseudo_dirs[:] = [""]


def serve(store: ObjectStore) -> str:
    """The address at which `store` answers from now on, until the process ends."""

    class Handler(_Handler):
        objects = store

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"127.0.0.1:{server.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: ObjectStore

    def do_GET(self):
        if "/o/" in self.path:
            self._read()
        elif self.path.startswith("/storage/"):
            self._list()
        else:
            # Where a machine in the cloud would find its credentials.
            self._answer(404)

    def do_POST(self):
        path = self._bucket() + "/" + self._query("name")
        data = self.rfile.read(int(self.headers["Content-Length"]))
        with _WRITING:
            if not self._is_as_expected(path):
                self._answer(412)
                return
            self.objects.pipe_file(path, data)
            described = self._described(path)
        self._answer_json(described)

    def do_DELETE(self):
        with _WRITING:
            as_expected = self._is_as_expected(self._path())
            if as_expected:
                self.objects.rm_file(self._path())
        self._answer(204 if as_expected else 412)

    def _is_as_expected(self, path):
        """Whether an object is of the generation that is asked for; 0: absent."""
        expected = self._query("ifGenerationMatch")
        found = "0"
        if self.objects.isfile(path):
            found = self._described(path)["generation"]
        return expected in ("", found)

    def log_message(self, *arguments):
        """Says nothing."""

    def _read(self):
        path = self._path()
        if not self.objects.isfile(path):
            self._answer(404)
            return
        data = self.objects.cat_file(path)
        generation = {"x-goog-generation": self._described(path)["generation"]}
        if "Range" not in self.headers:
            self._answer(200, data, generation)
            return
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        low = int(first) if first else len(data) - int(last)
        part = data[low : int(last) + 1] if first and last else data[low:]
        where = f"bytes {low}-{low + len(part) - 1}/{len(data)}"
        self._answer(206, part, generation | {"Content-Range": where})

    def _list(self):
        bucket = self._bucket()
        paths = self.objects.find(bucket) if self.objects.exists(bucket) else []
        found = [self._described(path) for path in paths]
        prefix = self._query("prefix")
        self._answer_json(
            {"items": [one for one in found if one["name"].startswith(prefix)]}
        )

    def _described(self, path):
        data = self.objects.cat_file(path)
        return {
            "name": path.removeprefix(self._bucket() + "/"),
            "size": str(len(data)),
            "generation": str(abs(hash(data)) + 1),
        }

    def _bucket(self):
        return "/" + urlsplit(self.path).path.split("/b/")[1].split("/")[0]

    def _path(self):
        name = urlsplit(self.path).path.split("/o/", 1)[1]
        return f"{self._bucket()}/{unquote(name)}"

    def _query(self, key):
        return parse_qs(urlsplit(self.path).query).get(key, [""])[0]

    def _answer_json(self, value):
        kind = {"Content-Type": "application/json"}
        self._answer(200, json.dumps(value).encode(), kind)

    def _answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
