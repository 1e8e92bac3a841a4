"""A running proxy, and a client that asks it."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn

from svir_proxy.cli.http_server import config_for
from svir_proxy.cli.in_process import settings_for
from svir_proxy.conform.replay import ask
from svir_proxy.server.app import create_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from svir_proxy.settings import Settings

__all__ = ["ask", "running_proxy", "settings_for"]


@asynccontextmanager
async def running_proxy(settings: Settings) -> AsyncIterator[str]:
    """The proxy, listening in the loop of the test; gives its base URL without ``/v1``.

    It is `svir_proxy.cli.in_process.running_proxy` without uvicorn's pauses: they are a fifth of a second for each proxy,
    and longer than most tests that need one.
    """
    server = _Server(config_for(create_app(settings), settings))
    # With its protocol named: only then asyncio turns off Nagle's algorithm, which costs 40 ms for each answer.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        serving = asyncio.create_task(server.serve([listener]))
        ready = asyncio.create_task(server.ready.wait())
        try:
            await asyncio.wait((serving, ready), return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                await serving
                raise RuntimeError("the proxy did not start")
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ready.cancel()
            server.leave.set()
            await serving


class _Server(uvicorn.Server):
    """A server that says when it is ready, is told when to leave, and looks for the end of its connections all the time."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self.leave = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.ready.set()

    async def main_loop(self) -> None:
        await self.leave.wait()

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

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
