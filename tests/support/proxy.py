"""A running proxy: the application on a free loopback port, served as ``serve`` does it, in the loop of the test."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import uvicorn
from pydantic import ValidationError

from svir_proxy.cli.http_server import config_for
from svir_proxy.conform.judge import UPSTREAM_KEY, Seen
from svir_proxy.server.app import create_app
from svir_proxy.settings import Settings, SettingsError
from svir_proxy.settings.problems import problems_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping


def settings_for(
    base_url: str, profile: str = "generic", overrides: Mapping[str, Any] | None = None, **sections: Any
) -> Settings:
    """Settings of a proxy with one backend at *base_url* and no keys of its own; *sections* as in a settings file."""
    backend = {
        "name": "case",
        "base_url": base_url,
        "profile": profile,
        "api_key": UPSTREAM_KEY,
        "overrides": dict(overrides or {}),
    }
    try:
        return Settings.model_validate({"auth": {"keys": []}, "backends": [backend], **sections})
    except ValidationError as exc:
        raise SettingsError(problems_of(exc, Settings)) from None


@asynccontextmanager
async def running_proxy(settings: Settings) -> AsyncIterator[str]:
    """The proxy, listening; gives its base URL without ``/v1``."""
    server = _Server(config_for(create_app(settings), settings))
    # With its protocol named: only then asyncio turns off Nagle's algorithm, which costs 40 ms for each answer.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
        server.should_exit = True
        await serving
        listener.close()


async def ask(client: httpx.AsyncClient, base_url: str, body: Mapping[str, Any], seconds: float = 30) -> Seen:
    """Send a chat request and read the whole answer, however its body ends. TimeoutError after *seconds*."""
    async with (
        asyncio.timeout(seconds),
        client.stream("POST", f"{base_url}/v1/chat/completions", json=body) as response,
    ):
        data, clean = b"", True
        try:
            async for piece in response.aiter_bytes():
                data += piece
        except httpx.RemoteProtocolError:
            clean = False
        return Seen(response.status_code, response.headers, data, clean)


class _Server(uvicorn.Server):
    """A server that says when it is ready, and leaves the signals to pytest."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
