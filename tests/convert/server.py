"""A server on this machine in the place of the public buckets."""

import contextlib
import http.server
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves one file under every path but /absent."""

    def do_GET(self):
        self.server.asked.append(self.path)
        if "absent" in self.path:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()
        self.wfile.write(self.server.content)

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def serving(content):
    """Serves these bytes; gives the server, with `url` and the paths `asked` for."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.asked, running.content = [], content
        running.url = f"http://127.0.0.1:{running.server_port}/"
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join()
