"""Bodies between a connection and its consumer, with the connection's part played here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from svir_proxy.server.transport.response import UpstreamResponse
from tests.server.transport.raw_server import soon

LIMIT = 10


class Connection:
    """The source of a body: notes what it is told."""

    def __init__(self) -> None:
        self.held = False
        self.left = 0

    def hold_reading(self, hold: bool) -> None:
        self.held = hold

    def leave(self) -> None:
        self.left += 1


class Sink:
    """Notes what it is given; *on_data* is called with each piece."""

    def __init__(self, on_data: Callable[[bytes], Any] | None = None) -> None:
        self.got: list[bytes | Exception | None] = []
        self.on_data = on_data

    def data_received(self, data: bytes) -> None:
        self.got.append(data)
        if self.on_data is not None:
            self.on_data(data)

    def body_ended(self, error: Exception | None) -> None:
        self.got.append(error)


def feed_and_attach(body: UpstreamResponse, sink: Sink, *, early: bool) -> None:
    """A first read, *early*: before anybody takes it."""
    if early:
        body.feed(b"a")
        body.attach(sink)
    else:
        body.attach(sink)
        body.feed(b"a")


@pytest.fixture
def connection() -> Connection:
    return Connection()


@pytest.fixture
def body(connection: Connection) -> UpstreamResponse:
    return UpstreamResponse(connection, LIMIT)


@pytest.fixture
async def complaints() -> list[dict[str, Any]]:
    """What the loop's exception handler is given."""
    seen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
    return seen


LOST = httpx.ReadError("lost")

# What the connection does, before and after a sink is attached at "|".
PUSHED: dict[str, tuple[list[Any], list[Any]]] = {
    "nothing": (["|", None], [None]),
    "each read as it comes": (["|", b"a", b"b", None], [b"a", b"b", None]),
    "what had arrived, as one": ([b"a", b"b", "|", b"c", None], [b"ab", b"c", None]),
    "all had arrived": ([b"a", None, "|"], [b"a", None]),
    "the end had come": ([None, "|"], [None]),
    "lost before": ([b"a", LOST, "|"], [b"a", LOST]),
    "lost after": (["|", b"a", LOST], [b"a", LOST]),
    "paused": (["|", b"a", "pause", b"b", b"c", "resume", b"d", None], [b"a", b"bc", b"d", None]),
    "ended while paused": (["|", "pause", b"a", None, "resume"], [b"a", None]),
    "lost while paused": (["|", "pause", LOST, "resume"], [LOST]),
    "paused before": (["pause", b"a", "|", b"b", "resume", None], [b"ab", None]),
    "still paused": (["|", "pause", b"a", None], []),
    "resumed without a pause": (["|", "resume", b"a", None, "resume"], [b"a", None]),
    "closed": (["|", b"a", "close", b"b"], [b"a"]),
    "closed, then lost": (["|", "close", LOST], []),
    "detached": (["|", b"a", "detach", b"b", None], [b"a"]),
    "detached and attached": (["|", b"a", "detach", b"b", b"c", "|", b"d", None], [b"a", b"bc", b"d", None]),
}


@pytest.mark.parametrize("name", PUSHED)
def test_pushed(name: str, body: UpstreamResponse) -> None:
    steps, expected = PUSHED[name]
    sink = Sink()
    for step in steps:
        if step == "|":
            body.attach(sink)
        elif isinstance(step, str):
            getattr(body, step)()
        elif isinstance(step, bytes):
            body.feed(step)
        else:
            body.end(step)
    assert sink.got == expected


# What a sink calls from within its first data_received -> what reaches it, of b"a" | b"b", b"c", the end.
REENTRANT: dict[str, tuple[tuple[str, ...], list[Any]]] = {
    "pause": (("pause",), [b"a"]),
    "pause, resume": (("pause", "resume"), [b"a", b"b", b"c", None]),
    "resume": (("resume",), [b"a", b"b", b"c", None]),
    "detach": (("detach",), [b"a"]),
    "close": (("close",), [b"a"]),
    "close twice": (("close", "close"), [b"a"]),
    "pause, close, resume": (("pause", "close", "resume"), [b"a"]),
}


@pytest.mark.parametrize("early", [False, True], ids=["as it comes", "while attaching"])
@pytest.mark.parametrize("name", REENTRANT)
def test_the_sink_may_do_anything(name: str, early: bool, body: UpstreamResponse) -> None:
    calls, expected = REENTRANT[name]

    def act(data: bytes) -> None:
        if data == b"a":
            for call in calls:
                getattr(body, call)()

    sink = Sink(act)
    feed_and_attach(body, sink, early=early)
    body.feed(b"b")
    body.feed(b"c")
    body.end(None)
    assert sink.got == expected


def test_an_end_that_waits_comes_after_the_data_and_not_within(body: UpstreamResponse) -> None:
    within = False
    order: list[bool] = []

    def act(_: bytes) -> None:
        nonlocal within
        within = True
        body.pause()
        body.resume()
        within = False

    class Watching(Sink):
        def body_ended(self, error: Exception | None) -> None:
            order.append(within)
            super().body_ended(error)

    sink = Watching(act)
    body.feed(b"a")
    body.end(None)
    body.attach(sink)
    assert (sink.got, order) == ([b"a", None], [False])


def test_a_sink_can_hand_over_to_another(body: UpstreamResponse) -> None:
    second = Sink()

    def hand_over(_: bytes) -> None:
        body.detach()
        body.attach(second)

    first = Sink(hand_over)
    body.attach(first)
    body.feed(b"a")
    body.feed(b"b")
    body.end(None)
    assert (first.got, second.got) == ([b"a"], [b"b", None])


def test_the_socket_is_held_back(body: UpstreamResponse, connection: Connection) -> None:
    body.feed(b"x" * LIMIT)
    assert not connection.held
    body.feed(b"x")
    assert connection.held, "more than the limit is unread"
    sink = Sink()
    body.attach(sink)
    assert not connection.held, "all is delivered"
    body.feed(b"x" * 100)
    assert not connection.held, "nothing is kept"
    body.pause()
    assert connection.held
    body.feed(b"x")
    body.resume()
    assert not connection.held
    sink.on_data = lambda _: body.pause()
    body.feed(b"x")
    assert connection.held, "paused from within"
    body.detach()
    body.resume()
    assert not connection.held
    body.feed(b"x" * (LIMIT + 1))
    assert connection.held, "nobody reads"


def test_closing_leaves_the_connection_once(body: UpstreamResponse, connection: Connection) -> None:
    body.close()
    body.close()
    assert connection.left == 1
    with pytest.raises(RuntimeError):
        body.attach(Sink())


def test_closing_after_the_end_leaves_nothing(body: UpstreamResponse, connection: Connection) -> None:
    body.feed(b"unread")
    body.end(None)
    body.close()
    assert connection.left == 0


def test_one_consumer_at_a_time(body: UpstreamResponse) -> None:
    body.attach(Sink())
    with pytest.raises(RuntimeError):
        body.attach(Sink())


@pytest.mark.parametrize("early", [False, True], ids=["as it comes", "while attaching"])
async def test_a_sink_that_raises(
    early: bool, body: UpstreamResponse, connection: Connection, complaints: list[dict[str, Any]]
) -> None:
    fault = ValueError("of the sink")

    def fail(_: bytes) -> None:
        raise fault

    sink = Sink(fail)
    feed_and_attach(body, sink, early=early)
    body.feed(b"b")
    body.end(LOST)
    assert sink.got == [b"a", fault]
    assert connection.left == 1
    assert [c["exception"] for c in complaints] == [fault]


async def test_a_sink_that_raises_after_closing_is_told_nothing(
    body: UpstreamResponse, connection: Connection, complaints: list[dict[str, Any]]
) -> None:
    def fail(_: bytes) -> None:
        body.close()
        raise ValueError

    sink = Sink(fail)
    body.attach(sink)
    body.feed(b"a")
    assert sink.got == [b"a"]
    assert (connection.left, len(complaints)) == (1, 1)


class Hopeless(Sink):
    def body_ended(self, error: Exception | None) -> None:
        super().body_ended(error)
        raise KeyError


async def test_a_sink_that_raises_at_the_end(body: UpstreamResponse, complaints: list[dict[str, Any]]) -> None:
    sink = Hopeless()
    body.attach(sink)
    body.end(None)
    assert sink.got == [None]
    assert [type(c["exception"]) for c in complaints] == [KeyError]


async def test_a_sink_that_raises_twice_is_reported_once(
    body: UpstreamResponse, complaints: list[dict[str, Any]]
) -> None:
    def fail(_: bytes) -> None:
        raise ValueError

    body.attach(Hopeless(fail))
    body.feed(b"a")
    assert [type(c["exception"]) for c in complaints] == [ValueError]


async def test_pulled(body: UpstreamResponse, connection: Connection) -> None:
    pieces = aiter(body)
    body.feed(b"a" * LIMIT)
    body.feed(b"b")
    assert connection.held
    assert await soon(anext(pieces)) == b"a" * LIMIT + b"b"
    assert not connection.held
    waiting = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)
    body.feed(b"c")
    body.feed(b"d")
    assert await soon(waiting) == b"cd"
    body.feed(b"e")
    body.end(None)
    assert [piece async for piece in pieces] == [b"e"]


async def test_pulling_raises_after_what_had_arrived(body: UpstreamResponse) -> None:
    body.feed(b"a")
    body.end(LOST)
    pieces = aiter(body)
    assert await anext(pieces) == b"a"
    with pytest.raises(httpx.ReadError, match="lost"):
        await anext(pieces)


async def test_pulling_ends_when_somebody_closes(body: UpstreamResponse) -> None:
    waiting = asyncio.ensure_future(anext(aiter(body)))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError):
        body.attach(Sink())
    with pytest.raises(RuntimeError):
        await anext(aiter(body))
    await body.aclose()
    with pytest.raises(httpx.StreamClosed):
        await soon(waiting)


async def test_a_pull_that_is_given_up_loses_nothing(body: UpstreamResponse) -> None:
    waiting = asyncio.ensure_future(anext(aiter(body)))
    await asyncio.sleep(0)
    waiting.cancel()
    body.feed(b"a")
    with pytest.raises(asyncio.CancelledError):
        await waiting
    body.end(None)
    assert [piece async for piece in body] == [b"a"]


# What the connection does, and what is at hand then.
AT_HAND: dict[str, tuple[list[Any], bytes | None]] = {
    "all of it": ([b"ab", b"c", None], b"abc"),
    "an empty one": ([None], b""),
    "more to come": ([b"ab"], None),
    "broken off": ([b"ab", LOST], None),
    "too much": ([b"x" * (LIMIT + 1), None], None),
}


@pytest.mark.parametrize("name", AT_HAND)
async def test_at_hand(name: str, body: UpstreamResponse) -> None:
    steps, expected = AT_HAND[name]
    for step in steps:
        if isinstance(step, bytes):
            body.feed(step)
        else:
            body.end(step)
    assert body.at_hand(LIMIT) == expected
    sink = Sink()
    if expected is None:  # it may be read all the same
        body.attach(sink)
        assert b"".join(got for got in sink.got if isinstance(got, bytes)) == b"".join(
            step for step in steps if isinstance(step, bytes)
        )
    else:
        with pytest.raises(RuntimeError):
            body.attach(sink)


async def test_what_is_being_read_is_not_at_hand(body: UpstreamResponse) -> None:
    body.attach(Sink())
    body.end(None)
    assert body.at_hand(LIMIT) is None
