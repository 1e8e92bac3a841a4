"""Both loops, and a server with a transport that talks to it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from svir_proxy.server.transport import RESPONSE, TransportLimits, UpstreamTransport, post_head
from svir_proxy.server.transport.stream import ResponseStream
from tests.server.transport.raw_server import Certificate, RawServer, soon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every test here runs on both loops: they differ in when they pause, close and tell of an end."""
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    try:
        import uvloop
    except ImportError:
        return factories
    return factories | {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    raw = RawServer()
    await raw.start()
    yield raw
    await raw.stop()


@pytest.fixture
def limits() -> TransportLimits:
    """Overridden where a test needs others. Nothing expires while a test waits for a connection to be closed."""
    return TransportLimits(idle_seconds=1000)


@pytest.fixture
async def transport(limits: TransportLimits) -> AsyncIterator[UpstreamTransport]:
    made = UpstreamTransport(limits=limits)
    yield made
    await soon(made.aclose())


Call = Any
"""``call(**request)``: a task that sends a request to the server and awaits the head of its response."""

EITHER_WAY = pytest.mark.parametrize("call", ["as httpx's", "posted"], indirect=True)
"""For what holds of `UpstreamTransport.post` as of `handle_async_request`."""


@pytest.fixture
def call(request: pytest.FixtureRequest, server: RawServer, transport: UpstreamTransport) -> Call:
    async def posted(content: bytes) -> httpx.Response:
        response = await transport.post(post_head(httpx.URL(server.url()), httpx.Headers()), content, None)
        stream = ResponseStream(response)
        return httpx.Response(response.status, headers=response.headers, stream=stream, extensions={RESPONSE: response})

    if getattr(request, "param", None) == "posted":
        return lambda content=b"{}": asyncio.create_task(soon(posted(content)))

    def start(
        content: Any = b"{}", *, method: str = "POST", timeout: dict[str, float] | None = None, **more: Any
    ) -> asyncio.Task[httpx.Response]:
        request = httpx.Request(method, server.url(), content=content, extensions={"timeout": timeout or {}}, **more)
        return asyncio.create_task(soon(transport.handle_async_request(request)))

    return start


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate(tmp_path_factory.mktemp("certificate"))
