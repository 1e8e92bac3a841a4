"""Bytes, silences and ends of an upstream, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from typing import Any, Final

import httpx
import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.profiles import load_profile
from svir_proxy.response.normalizer import StreamNormalizer
from svir_proxy.server.answer import StreamedAnswer, WholeAnswer
from svir_proxy.server.reception import Reception, Watch
from svir_proxy.server.transport import BodySink, content_decoder
from svir_proxy.settings import StreamingSettings, Timeouts
from tests.server.conftest import Clock
from tests.server.support import ANSWER, DONE, FINISH, PING, Wire, chunk, client_request, deltas, event, text
from tests.server.transport.raw_server import soon, until

pytestmark = pytest.mark.usefixtures("leaves_nothing")


class Body:
    """A body that the test feeds."""

    def __init__(self) -> None:
        self.sink: BodySink | None = None
        self.told: list[str] = []
        self.on_resume: Callable[[], None] = lambda: None

    def attach(self, sink: BodySink) -> None:
        self.sink = sink

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")
        self.on_resume()

    def close(self) -> None:
        self.told.append("close")


class Setup:
    """A reception under way."""

    def __init__(
        self, *, whole: bool = False, encoding: str = "", max_bytes: int = 1000, idle: float = 300, **request: Any
    ) -> None:
        self.wire, self.body = Wire(), Body()
        asked = client_request(**request)
        streaming = StreamingSettings(commit_after=5, keepalive=10)
        self.answer = WholeAnswer(asked) if whole else StreamedAnswer(asked, self.wire.send, lambda _: [], streaming)
        self.watch = Watch(self.answer, Timeouts(first_output=600, idle=idle))
        decoder = content_decoder(httpx.Headers({"content-encoding": encoding}), max_bytes=None)
        normalizer = StreamNormalizer(asked, load_profile("generic"))
        self.reception = Reception(normalizer, self.answer, self.watch, decoder, max_bytes)
        self.running = asyncio.create_task(self._receive())

    async def _receive(self) -> ProxyError | None:
        self.watch.start()
        try:
            return await self.reception.receive(self.body)  # type: ignore[arg-type]
        finally:
            self.watch.stop()

    async def feed(self, *data: bytes) -> None:
        await until(lambda: self.body.sink is not None)
        assert self.body.sink is not None
        for part in data:
            self.body.sink.data_received(part)

    async def silence(self, clock: Clock, seconds: float) -> None:
        """Nothing comes for *seconds*; timers have run afterwards."""
        clock.advance(seconds)
        for _ in range(5):
            await asyncio.sleep(0)

    async def result(self) -> ProxyError | None:
        return await soon(self.running)


async def test_a_stream_to_its_end() -> None:
    setup = Setup()
    await setup.feed(*(ANSWER[at : at + 9] for at in range(0, len(ANSWER), 9)))
    assert await setup.result() is None
    assert setup.body.told == ["resume"], "its connection can be used again when the body ends"
    setup.reception.data_received(text("after the end"))
    setup.reception.body_ended(None)
    assert [said for said in deltas(setup.wire.data) if isinstance(said, str)] == ["stop", "[DONE]"]
    assert b"after" not in setup.wire.data


async def test_a_body_that_does_not_end_is_closed_after_a_moment(clock: Clock) -> None:
    setup = Setup()
    await setup.feed(ANSWER)
    assert await setup.result() is None
    await setup.silence(clock, 0.5)
    assert setup.body.told == ["resume"]
    await setup.silence(clock, 0.6)
    assert setup.body.told == ["resume", "close"]


async def test_a_body_that_ends_at_once_is_not_closed_later(clock: Clock) -> None:
    setup = Setup()
    setup.body.on_resume = lambda: setup.reception.body_ended(None)
    await setup.feed(ANSWER)
    assert await setup.result() is None
    await setup.silence(clock, 5)
    assert setup.body.told == ["resume"]


@pytest.mark.parametrize("what", ["restart", "pause", "nothing"])
async def test_output_counts_however_soon_it_follows(clock: Clock, what: str) -> None:
    """The time of a loop stands still within a turn, and uvloop's for a millisecond."""
    watch = Watch(WholeAnswer(client_request()), Timeouts(first_output=600, idle=300))
    now = clock.time()
    watch.loop.time = lambda: now  # type: ignore[method-assign]
    watch.fresh_at = now
    if what == "restart":
        watch.restart()
        assert "first_output" in watch.error().message
    elif what == "pause":
        watch.pause()
        watch.resume()
    watch.fresh_at = now
    assert watch.silence() == 0
    assert "(timeouts.idle of" in watch.error().message


BROKEN: Final = httpx.ReadError("lost")


@pytest.mark.parametrize(
    ("parts", "end", "kind"),
    [
        ([text("a"), FINISH], None, None),
        ([text("a"), DONE], None, None),
        ([text("a")], None, "stream_truncated"),
        ([text("a"), FINISH], BROKEN, "stream_truncated"),
        ([], None, "stream_truncated"),
        ([b"<html>no"], None, "upstream_bad_response"),
        ([event({"error": {"message": "died", "type": "x"}})], None, "upstream_failed"),
        ([text("a"), event({"error": {"message": "died", "type": "x"}})], None, "upstream_failed"),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
async def test_ends(parts: list[bytes], end: Exception | None, kind: str | None, whole) -> None:
    setup = Setup(whole=whole)
    await setup.feed(*parts)
    setup.reception.body_ended(end)
    error = await setup.result()
    assert (error and error.kind) == kind


async def test_the_first_output_may_take_its_time_and_no_more(clock: Clock) -> None:
    setup = Setup()
    await setup.feed()
    for _ in range(11):
        await setup.silence(clock, 50)
        await setup.feed(PING, chunk({"role": "assistant", "content": ""}))
    assert not setup.running.done()
    await setup.silence(clock, 51)
    error = await setup.result()
    assert error is not None
    assert (error.kind, error.status) == ("upstream_timeout", 504)
    assert "600 s (timeouts.first_output" in error.message
    assert setup.body.told == ["close"], "the generation is stopped"


async def test_silence_between_outputs(clock: Clock) -> None:
    setup = Setup()
    await setup.feed(text("a"))
    await setup.silence(clock, 299)
    await setup.feed(text("b"))
    for _ in range(6):
        await setup.silence(clock, 49)
        await setup.feed(PING)
    assert not setup.running.done()
    await setup.silence(clock, 7)
    error = await setup.result()
    assert error is not None
    assert error.kind == "upstream_timeout"
    assert "300 s (timeouts.idle" in error.message
    assert setup.body.told == ["close"]


@pytest.mark.parametrize("whole", [False, True])
async def test_a_short_limit_is_kept_to_the_second(whole, clock: Clock) -> None:
    setup = Setup(whole=whole, idle=4)
    await setup.feed(text("a"))
    await setup.silence(clock, 3)
    await setup.feed(text("b"))
    await setup.silence(clock, 3.9)
    assert not setup.running.done()
    await setup.silence(clock, 0.2)
    error = await setup.result()
    assert error is not None
    assert "4 s (timeouts.idle" in error.message


async def test_a_server_that_is_asked_again_may_take_its_time_again(clock: Clock) -> None:
    setup = Setup(idle=4)
    await setup.feed(text("a"))
    setup.watch.restart()
    await setup.silence(clock, 599)
    assert not setup.running.done()
    await setup.silence(clock, 2)
    error = await setup.result()
    assert error is not None
    assert "600 s (timeouts.first_output" in error.message


async def test_a_call_that_is_held_back_is_progress(clock: Clock) -> None:
    tools = [{"type": "function", "function": {"name": "write", "parameters": {"type": "object"}}}]
    setup = Setup(tools=tools)
    await setup.feed(text('<tool_call>{"name": "write", "arguments": {"text": "'))
    for _ in range(5):
        await setup.feed(text("and so on "))
        await setup.silence(clock, 250)
    assert not setup.answer.has_output
    assert not setup.running.done()
    await setup.silence(clock, 51)
    error = await setup.result()
    assert error is not None
    assert error.kind == "upstream_timeout"


async def test_the_time_of_a_slow_client_is_not_the_servers(clock: Clock) -> None:
    setup = Setup()
    await setup.feed(text("a"))
    await setup.silence(clock, 200)
    setup.wire.writable.clear()
    await setup.feed(text("b"))
    assert setup.body.told == ["pause"]
    await setup.silence(clock, 5000)
    assert not setup.running.done()
    setup.wire.writable.set()
    await until(lambda: setup.body.told == ["pause", "resume"])
    await setup.silence(clock, 290)
    assert not setup.running.done(), "the server has its whole limit from the last output on"
    await setup.silence(clock, 20)
    error = await setup.result()
    assert error is not None
    assert error.kind == "upstream_timeout"


async def test_the_client_is_served_while_the_server_is_silent(clock: Clock) -> None:
    setup = Setup()
    await setup.feed()
    await setup.silence(clock, 6)
    assert len(deltas(setup.wire.data)) == 1, "begun"
    for count in (1, 2, 3):
        await setup.silence(clock, 11)
        assert deltas(setup.wire.data)[1:] == [": keepalive"] * count
    await setup.feed(ANSWER)
    assert await setup.result() is None


@pytest.mark.parametrize("whole", [False, True])
async def test_only_what_is_gathered_has_a_limit_of_size(whole) -> None:
    setup = Setup(whole=whole, max_bytes=3000)
    await setup.feed(*[text("x" * 100)] * 20)
    if whole:
        error = await setup.result()
        assert error is not None
        assert error.kind == "upstream_bad_response"
        assert "limits.max_answer_bytes" in error.message
        assert setup.body.told == ["close"]
    else:
        await setup.feed(FINISH, DONE)
        assert await setup.result() is None


PACKED: Final = gzip.compress(text("a") + FINISH, mtime=0)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PACKED, None),
        (PACKED[:-9], "stream_truncated"),
        (PACKED[:30] + b"\xff" * 8 + PACKED[38:], "upstream_bad_response"),
        (b"plain", "upstream_bad_response"),
    ],
    ids=["whole", "broken off", "damaged", "never compressed"],
)
@pytest.mark.parametrize("cut", [1, 7, 10_000])
async def test_compressed(data: bytes, kind: str | None, cut: int) -> None:
    setup = Setup(encoding="gzip")
    await setup.feed(*(data[at : at + cut] for at in range(0, len(data), cut)))
    assert setup.body.sink is not None
    setup.body.sink.body_ended(None)
    error = await setup.result()
    assert (error and error.kind) == kind


async def test_who_is_cancelled_closes_the_body() -> None:
    setup = Setup()
    await setup.feed(text("a"))
    setup.running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(setup.running)
    assert setup.body.told == ["close"]


async def test_a_limit_that_was_over_before_the_body_came(clock: Clock) -> None:
    setup = Setup()
    setup.watch.start()
    clock.advance(601)
    await until(lambda: setup.watch.is_over)
    error = await setup.result()
    assert error is not None
    assert error.kind == "upstream_timeout"
    assert setup.body.told == ["close"]


def _rounded(seconds: float | None) -> int:
    """To thousands: the clock goes on by itself, too."""
    assert seconds is not None
    return int(seconds // 1000) * 1000


@pytest.mark.parametrize("whole", [False, True])
async def test_the_last_output_is_when_it_came_and_not_when_the_answer_ended(clock: Clock, whole: bool) -> None:
    setup = Setup(whole=whole, idle=1e6)
    await setup.feed(text("a"))
    clock.advance(2000)
    await setup.feed(text("b"))
    clock.advance(3000)
    await setup.feed(PING)
    clock.advance(4000)
    await setup.feed(FINISH + DONE)
    assert await setup.result() is None
    assert _rounded(setup.watch.silence()) == 7000
    assert setup.answer.first_output is not None
    assert setup.answer.last_output is not None
    # The clock of the test is the loop's; the answer's own goes its usual way.
    assert setup.answer.last_output - setup.answer.first_output < 0


async def test_the_last_output_may_come_with_the_end(clock: Clock) -> None:
    setup = Setup(idle=1e6)
    await setup.feed(text("a"))
    clock.advance(2000)
    await setup.feed(text("b") + FINISH + DONE)
    assert await setup.result() is None
    assert _rounded(setup.watch.silence()) == 0


async def test_without_output_there_was_no_last() -> None:
    setup = Setup()
    await setup.feed(FINISH + DONE)
    assert await setup.result() is None
    assert setup.watch.silence() is None
    assert setup.answer.last_output is None
