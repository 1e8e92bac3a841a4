"""What is written for which content, and when no more is."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from svir_proxy.server.transport.head import Outgoing
from svir_proxy.server.transport.sending import SLICE, send, send_listening
from tests.server.transport.raw_server import soon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class Wire:
    """A connection that takes everything; *answer_after* writes it answers."""

    def __init__(self, answer_after: int | None = None) -> None:
        self.writes: list[bytes | memoryview] = []
        self.waits: list[float | None] = []
        self._answer_after = answer_after

    @property
    def answered(self) -> bool:
        return self._answer_after is not None and len(self.writes) >= self._answer_after

    @property
    def sent(self) -> bytes:
        return b"".join(self.writes)

    def write(self, data: bytes | memoryview) -> None:
        self.writes.append(data)

    async def drained(self, seconds: float | None) -> None:
        self.waits.append(seconds)


class Stream:
    """An async generator that tells whether it was closed."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            for piece in self.pieces:
                yield piece
        finally:
            self.closed = True


class Pieces:
    """An asynchronous iterator that is no generator, and has nothing to close."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces

    def __aiter__(self) -> Pieces:
        self._left = iter(self.pieces)
        return self

    async def __anext__(self) -> bytes:
        for piece in self._left:
            return piece
        raise StopAsyncIteration


BIG = bytes(range(256)) * (SLICE // 100)

# name: (content, declared length, bytes sent after the head)
SENT: dict[str, tuple[Any, int | None, bytes]] = {
    "nothing": (b"", 0, b""),
    "bytes": (b"abc", 3, b"abc"),
    "many bytes": (BIG, len(BIG), BIG),
    "bytes in chunks": (b"abc", None, b"3\r\nabc\r\n0\r\n\r\n"),
    "no bytes in chunks": (b"", None, b"0\r\n\r\n"),
    "stream in chunks": (Stream(b"abc", b"", b"x" * 17), None, b"3\r\nabc\r\n11\r\n" + b"x" * 17 + b"\r\n0\r\n\r\n"),
    "empty stream in chunks": (Stream(), None, b"0\r\n\r\n"),
    "stream of a length": (Stream(b"ab", b"", b"c"), 3, b"abc"),
    "empty stream of a length": (Stream(), 0, b""),
    "no generator": (Pieces(b"ab", b"c"), 3, b"abc"),
    "big pieces": (Stream(BIG, BIG), len(BIG) * 2, BIG * 2),
    "big chunks": (Stream(BIG), None, b"%x\r\n" % len(BIG) + BIG + b"\r\n0\r\n\r\n"),
}


@pytest.mark.parametrize("name", SENT)
async def test_sent(name: str) -> None:
    content, length, expected = SENT[name]
    wire = Wire()
    assert await send(wire, Outgoing(b"HEAD ", content, length, last=False), 5.0)
    assert wire.sent == b"HEAD " + expected
    assert set(wire.waits) <= {5.0}


async def test_big_contents_are_not_copied() -> None:
    wire = Wire()
    await send(wire, Outgoing(b"", BIG, len(BIG), last=False), None)
    slices = wire.writes[1:]
    assert len(slices) > 2
    assert all(isinstance(piece, memoryview) and piece.obj is BIG and len(piece) <= SLICE for piece in slices)
    assert len(wire.waits) == len(slices), "it waits after each, as the server may be slow"


@pytest.mark.parametrize(
    ("pieces", "words"), [((b"ab",), "shorter"), ((b"ab", b"cd"), "longer"), ((), "shorter"), ((b"abcd",), "longer")]
)
async def test_a_stream_must_have_its_length(pieces: tuple[bytes, ...], words: str) -> None:
    wire, stream = Wire(), Stream(*pieces)
    with pytest.raises(httpx.LocalProtocolError, match=words):
        await send(wire, Outgoing(b"", stream, 3, last=False), None)
    assert len(wire.sent) <= 3, "never a byte more than declared"
    assert stream.closed or not pieces


@pytest.mark.parametrize(
    ("content", "length"),
    [(BIG, len(BIG)), (BIG, None), (Stream(BIG), None), (Stream(b"a", b"b", b"c"), 3), (Stream(b"a", b"", b"c"), None)],
    ids=["bytes", "chunk", "stream in chunks", "stream", "small chunks"],
)
@pytest.mark.parametrize("after", [1, 2, 3])
async def test_an_answer_ends_the_request(content: Any, length: int | None, after: int) -> None:
    wire = Wire(answer_after=after)
    assert not await send(wire, Outgoing(b"HEAD ", content, length, last=False), None)
    assert len(wire.writes) <= after + 1
    assert isinstance(content, bytes) or content.closed


async def never() -> AsyncIterator[bytes]:
    yield b"a"
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("outcome", ["result", "error"])
async def test_a_stream_that_waits_is_given_up_for_the_answer(outcome: str) -> None:
    loop = asyncio.get_running_loop()
    head = loop.create_future()
    tell: Callable[[Any], None] = head.set_result if outcome == "result" else head.set_exception
    loop.call_soon(tell, httpx.ReadError("lost"))
    assert not await soon(send_listening(Wire(), Outgoing(b"", never(), None, last=False), None, head))
    assert outcome == "result" or head.exception()


async def test_a_stream_that_fails_fails_the_request() -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"a"
        raise KeyError("of the client")

    head = asyncio.get_running_loop().create_future()
    with pytest.raises(KeyError, match="of the client"):
        await soon(send_listening(Wire(), Outgoing(b"", failing(), None, last=False), None, head))


async def test_a_stream_that_fails_after_the_answer_is_of_no_interest() -> None:
    head = asyncio.get_running_loop().create_future()

    async def failing() -> AsyncIterator[bytes]:
        yield b"a"
        head.set_result(None)
        raise KeyError

    assert not await soon(send_listening(Wire(), Outgoing(b"", failing(), None, last=False), None, head))


async def test_a_stream_is_stopped_with_the_request() -> None:
    begun, closed = asyncio.Event(), asyncio.Event()

    async def waiting() -> AsyncIterator[bytes]:
        try:
            begun.set()
            await asyncio.get_running_loop().create_future()
            yield b""
        finally:
            closed.set()

    head = asyncio.get_running_loop().create_future()
    sending = asyncio.ensure_future(send_listening(Wire(), Outgoing(b"", waiting(), None, last=False), None, head))
    await soon(begun.wait())
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(sending)
    assert closed.is_set()


async def test_a_stream_that_fails_with_the_request_is_no_loss() -> None:
    """The client leaves: reading its body fails, and whoever waits for the answer is cancelled in the same moment."""
    lost: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    head = asyncio.get_running_loop().create_future()
    requests: list[asyncio.Task[bool]] = []

    async def failing() -> AsyncIterator[bytes]:
        yield b"a"
        requests.pop().cancel()
        raise KeyError

    out = Outgoing(b"", failing(), None, last=False)
    requests.append(asyncio.create_task(send_listening(Wire(), out, None, head)))
    with pytest.raises(asyncio.CancelledError):
        await soon(requests[0])
    await asyncio.sleep(0)  # the last reference is the loop's
    gc.collect()
    assert lost == []


async def test_a_whole_stream_is_sent_whole() -> None:
    head = asyncio.get_running_loop().create_future()
    wire = Wire()
    assert await soon(send_listening(wire, Outgoing(b"", Stream(b"abc"), 3, last=False), None, head))
    assert wire.sent == b"abc"
