"""What a client gets of the events of an answer, and when."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

import pytest
from starlette.types import Send

from svir_proxy.errors import ProxyError
from svir_proxy.response.events import ContentDelta, Ended, Event, Failed, Finished, Identified, Noted, ReasoningDelta
from svir_proxy.server.answer import StreamedAnswer, WholeAnswer, add_note
from svir_proxy.settings import StreamingSettings
from tests.server.conftest import Clock
from tests.server.support import ROLE, Wire, client_request, deltas
from tests.server.transport.raw_server import soon, until

pytestmark = pytest.mark.usefixtures("leaves_nothing")

ERROR = ProxyError("upstream_failed", "It broke.")
IDENTITY = Identified("id", 1, "served")


class Source:
    """A source that only says what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")


def streamed(send: Send, asked: str = "", *, commit_after: float = 5, keepalive: float = 10) -> StreamedAnswer:
    settings = StreamingSettings(commit_after=commit_after, keepalive=keepalive)
    return StreamedAnswer(client_request(), send, lambda noted: [(b"x-notes", str(noted).encode())], settings, asked)


async def test_nothing_is_sent_before_the_first_output_and_then_all_at_once() -> None:
    wire = Wire()
    answer = streamed(wire.send)
    answer.take([IDENTITY, Noted("odd")])
    answer.take([])
    assert (wire.sent, answer.committed, answer.has_output) == ([], False, False)
    answer.take([ReasoningDelta("think"), ContentDelta("say")])
    start, body = wire.sent
    assert (start["type"], start["status"]) == ("http.response.start", 200)
    assert dict(start["headers"]) == {
        b"content-type": b"text/event-stream; charset=utf-8",
        b"cache-control": b"no-cache",
        b"x-accel-buffering": b"no",
        b"x-notes": b"['odd']",
    }
    assert body["more_body"] is True
    assert deltas(wire.data) == [ROLE, {"reasoning_content": "think"}, {"content": "say"}]
    answer.take([Finished("stop"), Ended()])
    await soon(answer.end())
    assert wire.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert deltas(wire.data)[3:] == ["stop", "[DONE]"]


async def test_the_head_is_made_while_the_server_is_at_work_and_once_more_where_it_has_changed() -> None:
    asked: list[tuple[str, ...]] = []

    def head(noted: Sequence[str]) -> list[tuple[bytes, bytes]]:
        asked.append(tuple(noted))
        return [(b"x-notes", ",".join(noted).encode())]

    def begun(*steps: Callable[[StreamedAnswer], object]) -> tuple[list[tuple[str, ...]], bytes]:
        asked.clear()
        wire = Wire()
        answer = StreamedAnswer(client_request(), wire.send, head, StreamingSettings(), "wanted")
        for step in steps:
            assert not wire.sent
            step(answer)
        return asked.copy(), dict(wire.sent[0]["headers"])[b"x-notes"]

    def source(answer: StreamedAnswer) -> None:
        answer.begin_source(Source())

    def wanted(answer: StreamedAnswer) -> None:
        answer.take([Identified("id", 1, "wanted")])

    def other(answer: StreamedAnswer) -> None:
        answer.take([IDENTITY])

    def odd(answer: StreamedAnswer) -> None:
        answer.take([Noted("odd")])

    def text(answer: StreamedAnswer) -> None:
        answer.take([ContentDelta("x"), Noted("too late")])

    def due(answer: StreamedAnswer) -> None:
        answer.tick(asyncio.get_running_loop().time() + 3600)

    assert begun(source, text) == ([()], b"")
    assert begun(source, wanted, text)[1] == b""
    assert begun(source, other, text) == ([(), ("model=answered_by",)], b"model=answered_by")
    assert begun(source, odd, text) == ([(), ("odd",)], b"odd")
    assert begun(source, due) == ([()], b"")
    assert begun(text) == ([()], b"")
    assert begun(source, StreamedAnswer.end_source, StreamedAnswer.restart, text) == ([(), ()], b"")
    assert begun(source, StreamedAnswer.end_source, source, text) == ([(), ()], b"")


async def test_an_answer_without_output_begins_with_its_end() -> None:
    wire = Wire()
    answer = streamed(wire.send)
    answer.take([IDENTITY, Finished("length"), Ended()])
    assert deltas(wire.data) == [ROLE, "length", "[DONE]"]


async def test_a_failure_is_not_written_before_the_caller_says_so() -> None:
    wire = Wire()
    answer = streamed(wire.send)
    answer.take([IDENTITY, Failed(ERROR)])
    assert wire.sent == []
    answer.take([ContentDelta("x"), Failed(ERROR)])
    assert deltas(wire.data) == [ROLE, {"content": "x"}]
    answer.fail(ERROR)
    await soon(answer.end())
    assert deltas(wire.data)[2:] == ["upstream_failed"]
    assert wire.sent[-1]["more_body"] is False


async def test_the_stream_begins_when_it_is_time_and_is_kept_alive(clock: Clock) -> None:
    wire = Wire()
    answer = streamed(wire.send, commit_after=5, keepalive=10)
    began = clock.time()
    due = answer.tick(began)
    assert (due - began, wire.sent) == (pytest.approx(5, abs=1), [])
    clock.advance(6)
    due = answer.tick(clock.time())
    assert deltas(wire.data) == [ROLE]
    assert due - clock.time() == pytest.approx(10, abs=1)
    clock.advance(4)
    assert answer.tick(clock.time()) == due, "not yet"
    assert deltas(wire.data) == [ROLE]
    clock.advance(7)
    due = answer.tick(clock.time())
    assert deltas(wire.data) == [ROLE, ": keepalive"]
    clock.advance(8)
    answer.take([ContentDelta("late")])
    clock.advance(5)
    assert answer.tick(clock.time()) > due, "the silence begins with the last bytes"
    assert deltas(wire.data) == [ROLE, ": keepalive", {"content": "late"}]
    clock.advance(6)
    answer.tick(clock.time())
    answer.take([ContentDelta("r"), Finished("stop"), Ended()])
    assert deltas(wire.data)[3:] == [": keepalive", {"content": "r"}, "stop", "[DONE]"]


async def test_a_client_that_is_behind_holds_the_source_and_needs_no_keepalive(clock: Clock) -> None:
    wire, source, later = Wire(), Source(), Source()
    answer = streamed(wire.send)
    answer.begin_source(source)
    answer.take([ContentDelta("a")])
    wire.writable.clear()
    answer.take([ContentDelta("b")])
    answer.take([ContentDelta("c")])
    assert source.told == ["pause"]
    answer.end_source()
    answer.begin_source(later)
    assert later.told == ["pause"], "a second try finds the client as it is"
    clock.advance(60)
    assert answer.tick(clock.time()) > clock.time()
    wire.writable.set()
    await until(lambda: later.told == ["pause", "resume"])
    assert source.told == ["pause"]
    assert deltas(wire.data) == [ROLE, {"content": "a"}, {"content": "b"}, {"content": "c"}]
    answer.tick(clock.time())
    assert deltas(wire.data)[-1] == ": keepalive", "behind no more"


async def test_a_stream_is_broken_off_without_waiting_for_the_client() -> None:
    wire = Wire()
    answer = streamed(wire.send)
    answer.take([ContentDelta("a")])
    wire.writable.clear()
    answer.take([ContentDelta("b")])
    await answer.break_off(ERROR)
    wire.writable.set()
    await until(lambda: wire.sent[-1]["more_body"] is False)
    assert deltas(wire.data) == [ROLE, {"content": "a"}, {"content": "b"}, "upstream_failed"]


async def test_nothing_is_sent_to_a_client_that_is_gone() -> None:
    wire = Wire()
    answer = streamed(wire.send)
    answer.take([ContentDelta("a")])
    wire.writable.clear()
    answer.take([ContentDelta("b")])
    answer.abandon()
    answer.take([ContentDelta("c")])
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    assert deltas(wire.data) == [ROLE, {"content": "a"}]


@pytest.mark.parametrize(
    ("asked", "notes"), [("", []), ("served", []), ("other", ["model=answered_by"])], ids=["any", "same", "different"]
)
async def test_who_answered(asked: str, notes: list[str]) -> None:
    wire = Wire()
    events: list[Event] = [IDENTITY, ContentDelta("x"), Finished("stop"), Ended()]
    answer, gathered = streamed(wire.send, asked), WholeAnswer(client_request(), asked)
    answer.take(events)
    gathered.take(events)
    assert answer.notes == gathered.notes == notes
    assert dict(wire.sent[0]["headers"])[b"x-notes"] == str(notes).encode(), "known in time for the head"
    assert json.loads(gathered.body())["model"] == "served"


async def test_notes_are_told_once_and_not_without_end() -> None:
    notes: list[str] = []
    for number in range(1000):
        add_note(notes, f"n{number // 2}")
    assert notes == [f"n{number}" for number in range(20)]


async def test_a_whole_answer() -> None:
    answer = WholeAnswer(client_request())
    answer.begin_source(Source())
    answer.take([IDENTITY, Noted("odd")])
    assert not answer.has_output
    answer.take([ContentDelta("a"), ContentDelta("b")])
    assert answer.has_output
    answer.take([Finished("length"), Ended()])
    answer.end_source()
    assert answer.notes == ["odd"]
    choice = json.loads(answer.body())["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("ab", "length")
    assert answer.tick(100.0) > 1000
