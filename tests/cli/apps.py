"""ASGI applications that the tests of the HTTP server run in processes of their own."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib import import_module
from typing import Any, Final

from svir_proxy.cli import supervisor
from svir_proxy.cli.http_server import serve
from svir_proxy.settings import Settings


class App:
    """``/`` tells the process id; ``/stream`` sends a piece, and the rest once the request has come to its end."""

    def __init__(self, settings: Settings, place: object = None) -> None:
        self._drain = settings.server.drain_seconds

    def reload(self, settings: Settings) -> None:
        self._drain = settings.server.drain_seconds

    def drain(self) -> None:
        pass

    def settle(self) -> None:
        pass

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
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


class Broken(App):
    """Fails to start."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no"})


class Stuck(App):
    """Does not come to its end."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            self._never = asyncio.Event()  # held on to: else nobody does, and the task that waits for it is collected
            await self._never.wait()
        await super().__call__(scope, receive, send)


class Telling(App):
    """Tells that it has left nothing undone."""

    def settle(self) -> None:
        sys.stderr.write("settled\n")


class Faulty(App):
    """Cannot even be made."""

    def __init__(self, settings: Settings, place: object = None) -> None:
        raise RuntimeError("no")


APPS: Final = {"app": App, "broken": Broken, "faulty": Faulty, "stuck": Stuck, "telling": Telling}


async def _lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


if __name__ == "__main__":
    name, workers, host, port, drain = sys.argv[1:]
    settings = Settings(server={"host": host, "port": port, "workers": workers, "drain_seconds": drain})  # type: ignore[arg-type]
    # Under the name that workers import it by, not as __main__.
    make = import_module("tests.cli.apps").APPS[name]
    if name == "stuck":
        supervisor._MARGIN = 0.0
    if settings.server.workers > 1:
        sys.exit(supervisor.serve_with_workers(make, settings))
    sys.exit(serve(make(settings), settings))
