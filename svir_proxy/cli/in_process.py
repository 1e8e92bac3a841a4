"""A proxy in the loop of whoever asks it: of a command that needs one for a while, and of the tests.

Served as ``serve`` does it, on a free loopback port, without its signals.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn
from pydantic import ValidationError

from svir_proxy.cli.http_server import config_for
from svir_proxy.conform.judge import UPSTREAM_KEY
from svir_proxy.server.app import create_app
from svir_proxy.settings import Settings, SettingsError
from svir_proxy.settings.problems import problems_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping


def settings_for(
    base_url: str, profile: str = "generic", overrides: Mapping[str, Any] | None = None, **sections: Any
) -> Settings:
    """Settings of a proxy with one backend at *base_url* and no keys of its own; *sections* as in a settings file.

    Raises:
        SettingsError: They cannot be: an override that is none, for instance.
    """
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


class InProcessServer(uvicorn.Server):
    """A server that says when it is ready, and leaves the signals to others."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    def leave(self) -> None:
        """Serve no longer."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        if self.started:
            self.ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None of them."""
        yield


@asynccontextmanager
async def running_proxy(settings: Settings, make: type[InProcessServer] = InProcessServer) -> AsyncIterator[str]:
    """The proxy, listening on a server of the class *make*; gives its base URL without ``/v1``."""
    server = make(config_for(create_app(settings), settings))
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
            server.leave()
            await serving
