"""An answer that nobody sees before it is judged."""

from __future__ import annotations

from typing import Any

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.expectation import Expectation
from svir_proxy.response.events import (
    ArgumentsDelta,
    ContentDelta,
    Ended,
    Event,
    Failed,
    Finished,
    Identified,
    RefusalDelta,
    ToolCallStarted,
)
from svir_proxy.server.held_answer import HeldAnswer
from tests.server.test_answer import Source


class Behind:
    """The answer behind it, which only remembers."""

    gathers = False
    is_timed = True

    def __init__(self) -> None:
        self.taken: list[Event] = []
        self.has_output = False

    def take(self, events: Any) -> None:
        self.taken += events

    def tick(self, now: float) -> float:
        return now + 7

    def begin_source(self, source: Any) -> None:
        raise AssertionError("nothing comes to it")

    def end_source(self, silence: float | None = None) -> None:
        raise AssertionError("nothing comes to it")


SCHEMA = Expectation("response_format.json_schema", schema={"type": "object", "required": ["a"]})
CALL = Expectation("tool_choice.required", calls=frozenset({"f"}))
IDENTITY = Identified("id", 1, "m")
STOP: list[Event] = [Finished("stop"), Ended()]


def held(expectation: Expectation, *events: Event) -> tuple[HeldAnswer, Behind]:
    behind = Behind()
    answer = HeldAnswer(behind, expectation)
    answer.begin_source(Source())
    for event in events:
        answer.take([event])
    answer.end_source()
    assert behind.taken == []
    return answer, behind


@pytest.mark.parametrize(
    ("expectation", "events", "met"),
    [
        (SCHEMA, [ContentDelta('{"a"'), ContentDelta(": 1}")], True),
        (SCHEMA, [ContentDelta("Here: ```json\n"), ContentDelta('{"a": 1}\n```')], True),
        (SCHEMA, [ContentDelta('{"b": 1}')], False),
        (SCHEMA, [], False),
        (CALL, [ToolCallStarted(0, "c", "f")], True),
        (CALL, [ToolCallStarted(0, "c", "g")], False),
        (CALL, [ContentDelta("no")], False),
    ],
)
def test_what_is_demanded(expectation: Expectation, events: list[Event], met) -> None:
    answer, _ = held(expectation, IDENTITY, *events, *STOP)
    assert (answer.unmet() is None) == met


@pytest.mark.parametrize(
    ("expectation", "event", "cut"),
    [
        (SCHEMA, Finished("length"), True),
        (SCHEMA, Finished("content_filter"), True),
        (SCHEMA, RefusalDelta("no"), True),
        (SCHEMA, Finished("stop"), False),
        (CALL, Finished("length"), False),
        (CALL, Finished("content_filter"), True),
        (CALL, RefusalDelta("no"), True),
    ],
)
def test_what_asking_again_cannot_cure(expectation: Expectation, event: Event, cut) -> None:
    assert held(expectation, ContentDelta("x"), event)[0].is_cut == cut


def test_it_is_let_out_as_it_came() -> None:
    events = [IDENTITY, ContentDelta("a "), ToolCallStarted(0, "c", "f"), ArgumentsDelta(0, "{}"), *STOP]
    answer, behind = held(CALL, *events)
    answer.release()
    assert behind.taken == events


def test_demanded_json_is_let_out_without_what_was_around_it() -> None:
    answer, behind = held(
        SCHEMA, IDENTITY, ContentDelta("```json\n"), ContentDelta('{"a": 1}'), ContentDelta("\n```"), *STOP
    )
    answer.release()
    assert behind.taken == [IDENTITY, ContentDelta('{"a": 1}'), *STOP]


def test_output_counts_and_failures_are_the_callers_to_tell() -> None:
    answer, behind = held(CALL, IDENTITY)
    assert not answer.has_output
    answer.take([ContentDelta("x"), Failed(ProxyError("upstream_failed", "no"))])
    assert answer.has_output
    answer.release()
    assert behind.taken == [IDENTITY, ContentDelta("x")]


def test_the_client_is_kept_alive_meanwhile() -> None:
    assert held(CALL)[0].tick(3) == 10
    assert HeldAnswer.gathers, "so that its size is limited"
