"""ASGI applications that the tests of the HTTP server run in processes of their own."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from svir_proxy.cli.http_server import serve, serve_with_workers
from svir_proxy.settings import Settings


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """``/`` tells the process id; ``/stream`` sends a piece, and the rest once the request has come to its end."""
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/stream":
        await send({"type": "http.response.body", "body": b"begun\n", "more_body": True})
        while (await receive())["more_body"]:
            pass
        await send({"type": "http.response.body", "body": b"ended\n"})
    elif scope["path"] == "/endless":
        await send({"type": "http.response.body", "body": b"begun\n", "more_body": True})
        await asyncio.Event().wait()
    else:
        await send({"type": "http.response.body", "body": str(os.getpid()).encode()})


async def broken(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Fails to start."""
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no"})


def make_app() -> Any:
    return app


def make_broken() -> Any:
    return broken


async def _lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


if __name__ == "__main__":
    name, workers, host, port, drain = sys.argv[1:]
    settings = Settings(server={"host": host, "port": port, "workers": workers, "drain_seconds": drain})  # type: ignore[arg-type]
    if settings.server.workers > 1:
        sys.exit(serve_with_workers(f"tests.cli.apps:make_{name}", settings))
    sys.exit(serve({"app": app, "broken": broken}[name], settings))
