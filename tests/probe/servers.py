"""A simulated model server on a loopback port, in a thread: what the command line meets."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from svir_proxy.probe.answer import Answer
from tests.probe.simulated import Simulated, json_answer

Serve: TypeAlias = Callable[[str, str, dict[str, str], Any], Answer | None]
"""Method, path, headers and parsed body to an answer; None: silence until the server ends."""


@contextmanager
def serving(serve: Serve) -> Iterator[str]:
    """The URL of a server that answers with *serve*."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve(None)

        def do_POST(self) -> None:
            self._serve(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def _serve(self, body: Any) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = serve(self.command, self.path, headers, body)
            if answer is None:
                over.wait()
                return
            self.send_response(answer.status or 500)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def model_list(*ids: str) -> Answer:
    """A model list."""
    return json_answer({"object": "list", "data": [{"id": name, "object": "model"} for name in ids]})


def model_server(server: Simulated, *ids: str, key: str | None = None, header: str = "authorization") -> Serve:
    """*server* over HTTP, with a list of *ids*; with *key* nothing without it."""
    shown = f"Bearer {key}" if header == "authorization" else key

    def serve(method: str, path: str, headers: dict[str, str], body: Any) -> Answer:
        if key is not None and headers.get(header) != shown:
            return json_answer({"error": {"message": f"Incorrect API key: {headers.get(header)}"}}, 401)
        if method == "GET":
            return model_list(*(ids or ("m",))) if path == "/v1/models" else json_answer({"detail": "Not Found"}, 404)
        if path != "/v1/chat/completions":
            return json_answer({"detail": "Not Found"}, 404)
        return server.answer(body)

    return serve
