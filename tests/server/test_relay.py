"""An answer that passes: bytes, silences and ends of an upstream, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from typing import Any, Final

import httpx
import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.server.relay import Relay
from svir_proxy.server.transport import BodySink, content_decoder
from svir_proxy.settings import Timeouts
from tests.server.conftest import Clock
from tests.server.support import Wire
from tests.server.transport.raw_server import soon, until

pytestmark = pytest.mark.usefixtures("leaves_nothing")

START: Final = {"type": "http.response.start", "status": 200, "headers": []}


class Body:
    """A body that the test feeds."""

    def __init__(self) -> None:
        self.sink: BodySink | None = None
        self.told: list[str] = []

    def attach(self, sink: BodySink) -> None:
        self.sink = sink

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")

    def close(self) -> None:
        self.told.append("close")


class Setup:
    """A relay under way."""

    def __init__(self, *, encoding: str = "", room: int = 0, first_output: float = 600, idle: float = 300) -> None:
        self.wire, self.body = Wire(), Body()
        decoder = content_decoder(httpx.Headers({"content-encoding": encoding}), max_bytes=None)
        timeouts = Timeouts(first_output=first_output, idle=idle)
        self.relay = Relay(self.wire.send, START, timeouts, 5, decoder=decoder, room=room)
        self.running = asyncio.ensure_future(self.relay.run(self.body))  # type: ignore[arg-type]

    async def feed(self, *data: bytes) -> None:
        await until(lambda: self.body.sink is not None)
        for part in data:
            self.relay.data_received(part)

    async def silence(self, clock: Clock, seconds: float) -> None:
        """Nothing comes for *seconds*; timers have run afterwards."""
        await until(lambda: self.body.sink is not None)
        clock.advance(seconds)
        for _ in range(5):
            await asyncio.sleep(0)

    async def error(self) -> ProxyError | None:
        error = await soon(self.running)
        assert self.body.told[-1] == "close"
        return error


async def test_each_read_is_one_message() -> None:
    setup = Setup()
    await setup.feed(b"a", b"\0\xff", b"c")
    assert setup.wire.sent == [
        START,
        *({"type": "http.response.body", "body": data, "more_body": True} for data in (b"a", b"\0\xff", b"c")),
    ]
    setup.relay.body_ended(None)
    assert await setup.error() is None
    await setup.relay.end()
    assert setup.wire.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_an_empty_answer() -> None:
    setup = Setup()
    await setup.feed()
    setup.relay.body_ended(None)
    assert await setup.error() is None
    assert setup.wire.sent == []
    await setup.relay.end()
    assert setup.wire.sent == [START, {"type": "http.response.body", "body": b"", "more_body": False}]


async def test_what_is_compressed_is_undone() -> None:
    packed = gzip.compress(b"text" * 100_000)
    setup = Setup(encoding="gzip")
    await setup.feed(packed[:100], packed[100:])
    setup.relay.body_ended(None)
    assert await setup.error() is None
    assert setup.wire.data == b"text" * 100_000


@pytest.mark.parametrize(
    ("feed", "end", "kind", "words"),
    [
        ((b"no gzip",), None, "upstream_bad_response", "cannot be read"),
        ((gzip.compress(b"x" * 100)[:-1],), None, "stream_truncated", "broke off"),
        ((), httpx.ReadError("lost"), "stream_truncated", "broke off its answer: lost."),
    ],
)
async def test_what_is_broken(feed: tuple[bytes, ...], end: Exception | None, *, kind: str, words: str) -> None:
    setup = Setup(encoding="gzip")
    await setup.feed(*feed)
    setup.relay.body_ended(end)
    error = await setup.error()
    assert error is not None
    assert (error.kind, words in error.message) == (kind, True)


@pytest.mark.parametrize(
    ("pieces", "held", "passed"),
    [
        ((), b"", b""),
        ((b"12345", b"67890"), b"1234567890", b""),
        ((b"12345", b"67890", b"1", b"2"), b"", b"123456789012"),
    ],
)
async def test_a_small_answer_is_held(clock: Clock, pieces: tuple[bytes, ...], held: bytes, passed: bytes) -> None:
    setup = Setup(room=10)
    await setup.feed(*pieces)
    await setup.silence(clock, 6)  # it does not begin for want of bytes
    setup.relay.body_ended(None)
    assert await setup.error() is None
    assert (bytes(setup.relay.held), setup.wire.data, setup.relay.begun) == (held, passed, bool(passed))
    await setup.relay.end()
    assert setup.wire.data == held + passed
    assert setup.wire.sent[0] == START


async def test_the_server_waits_for_the_client_and_is_not_blamed(clock: Clock) -> None:
    setup = Setup()
    setup.wire.writable.clear()
    await setup.feed(b"a")
    assert setup.body.told == ["pause"]
    await setup.silence(clock, 1000)
    assert not setup.running.done()
    setup.wire.writable.set()
    await until(lambda: setup.body.told == ["pause", "resume"])
    await setup.silence(clock, 299)
    assert not setup.running.done()
    await setup.silence(clock, 2)
    error = await setup.error()
    assert error is not None
    assert "nothing for 300 s (timeouts.idle of the backend)" in error.message


@pytest.mark.parametrize(
    ("fed", "silence", "setting"),
    [
        ((), (599, 2), "600 s (timeouts.first_output of"),
        ((b"a",), (299, 2), "300 s (timeouts.idle of"),
        ((b"a", b"b"), (299, 2), "300 s (timeouts.idle of"),
    ],
)
async def test_limits_of_time(clock: Clock, fed: tuple[bytes, ...], silence: tuple[float, float], setting: str) -> None:
    setup = Setup()
    for data in fed:
        await setup.silence(clock, 200)
        await setup.feed(data)
    await setup.silence(clock, silence[0])
    assert not setup.running.done()
    await setup.silence(clock, silence[1])
    error = await setup.error()
    assert error is not None
    assert (error.kind, setting in error.message) == ("upstream_timeout", True)


async def test_an_answer_begins_without_a_byte_when_it_is_time(clock: Clock) -> None:
    setup = Setup()
    await setup.silence(clock, 4)
    assert setup.wire.sent == []
    await setup.silence(clock, 2)
    assert setup.wire.sent == [START, {"type": "http.response.body", "body": b"", "more_body": True}]
    await setup.silence(clock, 595)
    assert (await setup.error()) is not None
    assert setup.relay.begun


ERROR: Final = ProxyError("stream_truncated", "cut")
TOLD: Final = b"data: " + ERROR.body() + b"\n\n"


@pytest.mark.parametrize(
    ("fed", "events", "told"),
    [
        ((b"data: 1\n\n",), True, True),
        ((b"data: 1\r\n\r\n",), True, True),
        ((b"data: 1\n", b"\n"), True, True),
        ((b"data: 1\r\r",), True, True),
        ((b"data: 1\n\ndata: {",), True, False),
        ((b"data: 1\n",), True, False),
        ((b"data: 1\n\n",), False, False),
    ],
)
async def test_a_failure_in_mid_answer(fed: tuple[bytes, ...], *, events: bool, told: bool) -> None:
    setup = Setup()
    await setup.feed(*fed)
    setup.relay.body_ended(httpx.ReadError("lost"))
    assert await setup.error() is not None
    assert await setup.relay.break_off(ERROR, events=events) == told
    assert setup.wire.data == b"".join(fed) + (TOLD if told else b"")
    assert setup.wire.sent[-1]["more_body"] != told
    if told:
        await setup.relay.end()  # waits, and sends nothing more
        assert setup.wire.data.endswith(TOLD)


@pytest.mark.parametrize("late", ["data", "end", "timer"])
async def test_what_comes_after_the_end_changes_nothing(clock: Clock, late: str) -> None:
    setup = Setup(encoding="gzip")
    await setup.feed(b"no gzip")
    after: dict[str, Callable[[], Any]] = {
        "data": lambda: setup.relay.data_received(b"more"),
        "end": lambda: setup.relay.body_ended(httpx.ReadError("lost")),
        "timer": lambda: clock.advance(1000),
    }
    after[late]()
    error = await setup.error()
    assert error is not None
    assert error.kind == "upstream_bad_response"


async def test_nobody_is_left() -> None:
    setup = Setup()
    setup.wire.writable.clear()
    await setup.feed(b"a", b"b")
    setup.running.cancel()
    setup.relay.abandon()
    with pytest.raises(asyncio.CancelledError):
        await setup.running
    setup.wire.writable.set()
    await asyncio.sleep(0)
    assert setup.body.told == ["pause", "close"]
    assert len(setup.wire.sent) <= 1
