"""The push interface over any httpx stream, and the response closed in the end whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from svir_proxy.server.pulled_response import PulledResponse
from tests.server.transport.raw_server import until

pytestmark = pytest.mark.usefixtures("leaves_nothing")


class Stream(httpx.AsyncByteStream):
    """A stream that the test fills; None is its end."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.closed = 0

    def fill(self, *pieces: bytes | Exception | None) -> None:
        for piece in pieces:
            self.pieces.put_nowait(piece)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self.pieces.get()) is not None:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def aclose(self) -> None:
        self.closed += 1


class Sink:
    def __init__(self) -> None:
        self.got: list[bytes | Exception | None] = []
        self.body: PulledResponse | None = None

    def data_received(self, data: bytes) -> None:
        self.got.append(data)
        if data == b"enough":
            assert self.body is not None
            self.body.close()
        if data == b"bad":
            raise ValueError("the sink fails")

    def body_ended(self, error: Exception | None) -> None:
        self.got.append(error)


def pulled() -> tuple[Stream, Sink, PulledResponse]:
    stream, sink = Stream(), Sink()
    body = sink.body = PulledResponse(httpx.Response(200, stream=stream))
    return stream, sink, body


async def test_data_and_its_end() -> None:
    stream, sink, body = pulled()
    body.attach(sink)
    stream.fill(b"a", b"b", None)
    await until(lambda: stream.closed == 1)
    assert sink.got == [b"a", b"b", None]
    body.close()
    body.close()
    await until(lambda: len(asyncio.all_tasks()) == 1)
    assert stream.closed == 1


@pytest.mark.parametrize("error", [httpx.ReadError("lost"), httpx.RemoteProtocolError("cut"), ValueError("a bug")])
async def test_data_and_a_break(error: Exception) -> None:
    stream, sink, body = pulled()
    body.attach(sink)
    stream.fill(b"a", error)
    await until(lambda: stream.closed == 1)
    assert sink.got == [b"a", error]


async def test_a_sink_that_fails_still_hears_of_the_end() -> None:
    stream, sink, body = pulled()
    body.attach(sink)
    stream.fill(b"bad")
    await until(lambda: stream.closed == 1)
    assert [str(got) for got in sink.got] == ["b'bad'", "the sink fails"]


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
async def test_nothing_comes_while_it_is_paused(before) -> None:
    stream, sink, body = pulled()
    if before:
        body.pause()
    body.attach(sink)
    body.pause()
    stream.fill(b"a", b"b", None)
    await until(lambda: stream.pieces.qsize() == 2)
    assert sink.got == []
    body.resume()
    body.pause()
    await until(lambda: sink.got == [b"a"] or stream.pieces.qsize() == 0)
    body.resume()
    await until(lambda: stream.closed == 1)
    assert sink.got == [b"a", b"b", None], "not even the end is lost"


@pytest.mark.parametrize("when", ["never attached", "not begun", "waiting", "paused"])
async def test_closing_ends_the_request_and_tells_nobody(when: str) -> None:
    stream, sink, body = pulled()
    if when != "never attached":
        body.attach(sink)
    if when == "paused":
        body.pause()
        stream.fill(b"a")
    if when in ("waiting", "paused"):
        await until(stream.pieces.empty)
        await asyncio.sleep(0)
    body.close()
    stream.fill(b"late", None)
    await until(lambda: stream.closed == 1)
    assert sink.got == []


async def test_a_sink_may_close_from_within() -> None:
    stream, sink, body = pulled()
    body.attach(sink)
    stream.fill(b"a", b"enough", b"more", None)
    await until(lambda: stream.closed == 1)
    assert sink.got == [b"a", b"enough"]
