"""The application under another ASGI server than the proxy's own listener, and behind middleware of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import uvicorn
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from svir_proxy.server.app import create_app
from tests.server.support import (
    CHAT,
    COMPLETION,
    DONE,
    FINISH,
    LAST_PIECE,
    ROLE,
    STREAM,
    STREAM_HEAD,
    Client,
    deltas,
    piece,
    settings,
    text,
    whole,
)
from tests.server.transport.raw_server import Peer, RawServer, soon
from tests.support.proxy import QuickServer

pytestmark = pytest.mark.usefixtures("leaves_nothing")


def bare(app: ASGIApp) -> ASGIApp:
    """Nothing between."""
    return app


def wrapped(app: ASGIApp) -> ASGIApp:
    """Functions of somebody else's between."""

    async def between(scope: Scope, receive: Receive, send: Send) -> None:
        async def take() -> Message:
            return await receive()

        async def give(message: Message) -> None:
            await send(message)

        await app(scope, take, give)

    return between


def timed(app: ASGIApp) -> ASGIApp:
    """A time limit for each message, which wants the task that it runs in."""

    async def between(scope: Scope, receive: Receive, send: Send) -> None:
        async def take() -> Message:
            async with asyncio.timeout(60):
                return await receive()

        async def give(message: Message) -> None:
            async with asyncio.timeout(60):
                await send(message)

        await app(scope, take, give)

    return between


def starlette(app: ASGIApp) -> ASGIApp:
    """Starlette's own, which runs the application in a task group and hands messages through a stream."""

    async def through(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    return BaseHTTPMiddleware(app, dispatch=through)


MIDDLEWARE: Final = (bare, wrapped, timed, starlette)
PROTOCOLS: Final = ("httptools", "h11")


@asynccontextmanager
async def served(
    between: Callable[[ASGIApp], ASGIApp], protocol: str
) -> AsyncIterator[tuple[RawServer, Client, QuickServer]]:
    """A model server that does what the test says, and a client of the application in front of it."""
    upstream = RawServer()
    await upstream.start()
    app = between(create_app(settings(f"http://127.0.0.1:{upstream.port}/v1")))
    server = QuickServer(uvicorn.Config(app, port=0, http=protocol, lifespan="on", log_config=None, access_log=False))  # type: ignore[arg-type]
    serving = asyncio.create_task(server.serve())
    try:
        await soon(server.ready.wait())
        port = server.servers[0].sockets[0].getsockname()[1]
        client = await Client.connect(f"http://127.0.0.1:{port}")
        try:
            yield upstream, client, server
        finally:
            await client.close()
    finally:
        server.leave()
        await soon(serving)
        await upstream.stop()


everywhere = pytest.mark.parametrize(
    ("between", "protocol"), [(between, protocol) for between in MIDDLEWARE for protocol in PROTOCOLS]
)


async def begun(upstream: RawServer, client: Client) -> Peer:
    """The server's end of a stream, of which the client has the head, and has yet to read the first piece."""
    await client.ask(STREAM)
    peer = await upstream.accept()
    await peer.answer(STREAM_HEAD + piece(text("one")))
    assert await client.status() == 200
    return peer


@everywhere
async def test_a_plain_answer(between: Callable[[ASGIApp], ASGIApp], protocol: str) -> None:
    async with served(between, protocol) as (upstream, client, _):
        await client.ask(CHAT)
        await (await upstream.accept()).answer(whole(COMPLETION))
        assert await client.status() == 200
        assert (await client.body())["choices"][0]["message"]["content"] == "one two"


@everywhere
async def test_a_stream_piece_by_piece(between: Callable[[ASGIApp], ASGIApp], protocol: str) -> None:
    async with served(between, protocol) as (upstream, client, _):
        peer = await begun(upstream, client)
        seen = await client.piece()
        await peer.send(piece(text(" two")))
        seen += await client.piece()
        await peer.send(piece(FINISH + DONE) + LAST_PIECE)
        assert deltas(seen + await client.rest()) == [ROLE, {"content": "one"}, {"content": " two"}, "stop", "[DONE]"]


@everywhere
async def test_a_client_that_leaves(between: Callable[[ASGIApp], ASGIApp], protocol: str) -> None:
    async with served(between, protocol) as (upstream, client, _):
        peer = await begun(upstream, client)
        client.leave()
        assert await peer.gone() == b"", "nobody is left to generate for"


@pytest.mark.parametrize("between", [bare, wrapped, timed])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_server_that_stops_before_the_answer_is_whole(
    between: Callable[[ASGIApp], ASGIApp], protocol: str
) -> None:
    async with served(between, protocol) as (upstream, client, server):
        await begun(upstream, client)
        seen = await client.piece()
        for task in server.server_state.tasks:
            task.cancel()  # as uvicorn does once its patience is over
        assert deltas(seen + await client.rest()) == [ROLE, {"content": "one"}, "upstream_unavailable"]


def slow(app: ASGIApp) -> ASGIApp:
    """A wait before each message."""

    async def between(scope: Scope, receive: Receive, send: Send) -> None:
        async def give(message: Message) -> None:
            for _ in range(20):
                await asyncio.sleep(0)
            await send(message)

        await app(scope, receive, give if scope["type"] == "http" else send)

    return between


async def test_what_came_of_an_answer_that_is_cut_is_handed_over() -> None:
    async with served(slow, "httptools") as (upstream, client, _):
        await client.ask({"model": "m", "input": "x", "voice": "v"}, path="/v1/audio/speech")
        peer = await upstream.accept()
        await peer.answer(b"HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ncontent-length: 9\r\n\r\nabc")
        assert await client.status() == 200
        await peer.send(b"def")
        peer.end()
        assert await client.end() == b"abcdef"
