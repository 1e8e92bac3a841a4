"""A running proxy, and a client that asks it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from svir_proxy.cli import in_process
from svir_proxy.cli.in_process import InProcessServer, settings_for
from svir_proxy.conform.replay import ask

if TYPE_CHECKING:
    import socket
    from contextlib import AbstractAsyncContextManager

    import uvicorn

    from svir_proxy.settings import Settings

__all__ = ["QuickServer", "ask", "running_proxy", "settings_for"]


def running_proxy(settings: Settings) -> AbstractAsyncContextManager[str]:
    """The proxy, listening in the loop of the test; gives its base URL without ``/v1``.

    It is without uvicorn's pauses: they are a fifth of a second for each proxy, and longer than most tests that need one.
    """
    return in_process.running_proxy(settings, QuickServer)


class QuickServer(InProcessServer):
    """A server that leaves as soon as it is told to, and looks for the end of its connections all the time."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._leaves = asyncio.Event()

    def leave(self) -> None:
        self._leaves.set()

    async def main_loop(self) -> None:
        await self._leaves.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        del sockets  # closed with the servers
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110 - none announces its end
                    await asyncio.sleep(0)
        except TimeoutError:
            for task in self.server_state.tasks:
                task.cancel()
        await self.lifespan.shutdown()
