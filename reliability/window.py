"""``python -m reliability.window SOCKET ...``: ``svir-proxy ...``, and a socket that tells what is in the process.

Only the soak starts it. Who connects to SOCKET and sends a byte gets one JSON object, see `reliability.proxy.Inside`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import sys
from collections import Counter
from typing import Any, cast

from svir_proxy.cli import main
from svir_proxy.cli.http_server import Server


class _Window(asyncio.Protocol):
    """One look: ``+`` asks for objects too."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody looks."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """What for."""
        seen: dict[str, Any] = {"tasks": len(asyncio.all_tasks())}
        if data == b"+":
            gc.collect()
            things = gc.get_objects()
            mine = (type(thing) for thing in things if str(type(thing).__module__).startswith("svir_proxy."))
            seen |= {"mine": Counter(f"{kind.__module__}.{kind.__qualname__}" for kind in mine), "all": len(things)}
        self._transport.write(json.dumps(seen).encode())
        self._transport.close()


class _Windowed(Server):
    """The server, with the window open."""

    path: str

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start; who is told that the server serves may look."""
        self._window = await asyncio.get_running_loop().create_unix_server(_Window, self.path)
        await super().startup(sockets)
        gc.unfreeze()  # else what came before the first reload is not counted, and what takes its place is


if __name__ == "__main__":
    import svir_proxy.cli.http_server

    _Windowed.path = sys.argv[1]
    svir_proxy.cli.http_server.Server = _Windowed  # type: ignore[misc]
    sys.exit(main(sys.argv[2:]))
