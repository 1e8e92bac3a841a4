"""What may follow what in an answer; what may not is dropped."""

from __future__ import annotations

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.response.events import (
    ArgumentsDelta,
    ContentDelta,
    Ended,
    ExtrasReported,
    Failed,
    FilterVerdict,
    Finished,
    Identified,
    LogprobsReported,
    Noted,
    ReasoningDelta,
    RefusalDelta,
    ToolCallPiece,
    ToolCallStarted,
    UsageReported,
)
from svir_proxy.response.lifecycle import OUTPUT, OVER, Lifecycle, State

ERROR = ProxyError("upstream_failed", "x")
TEXT = ContentDelta("a")
STOP = Finished("stop")
NOTE = Noted("x")
USAGE = UsageReported({})
FAILED = Failed(ERROR)
ASIDE = (Identified("a", 1, "m"), LogprobsReported(None, None), ExtrasReported({}), NOTE)
PIECES = (TEXT, ReasoningDelta("a"), RefusalDelta("a"), ToolCallStarted(0, "a", "f"), ArgumentsDelta(0, "a"))

COURSES = {
    # what comes: what leaves, and the state then
    "nothing yet": ([], [], State.WAITING),
    **{f"{type(one).__name__} is no output": ([one], [one], State.WAITING) for one in ASIDE},
    **{f"{type(one).__name__} is output": ([one], [one], State.ANSWERING) for one in PIECES},
    "an answer": ([TEXT, STOP, USAGE, Ended()], [TEXT, STOP, USAGE, Ended()], State.COMPLETE),
    "an empty answer": ([STOP, Ended()], [STOP, Ended()], State.COMPLETE),
    "a note may come late": ([TEXT, STOP, NOTE], [TEXT, STOP, NOTE], State.FINISHED),
    "nothing is output after the finish": ([STOP, *PIECES, *ASIDE[:3], STOP], [STOP], State.FINISHED),
    "no usage before the finish": ([USAGE, TEXT, USAGE], [TEXT], State.ANSWERING),
    "no end before the finish": ([Ended(), TEXT, Ended()], [TEXT], State.ANSWERING),
    "nothing follows the end": ([STOP, Ended(), TEXT, FAILED, Ended()], [STOP, Ended()], State.COMPLETE),
    "a failure before output": ([FAILED, TEXT, Ended()], [FAILED], State.FAILED),
    "a failure after output": ([TEXT, FAILED, FAILED], [TEXT, FAILED], State.FAILED),
    "a failure after the finish": ([STOP, FAILED, Ended()], [STOP, FAILED], State.FAILED),
    "what is internal to the stages stays there": (
        [ToolCallPiece(0, "a", "f", ""), FilterVerdict()],
        [],
        State.WAITING,
    ),
}


@pytest.mark.parametrize(("events", "expected", "state"), COURSES.values(), ids=COURSES)
def test_courses(events, expected, state):
    lifecycle = Lifecycle()
    for event in events:
        lifecycle.feed(event)
    assert lifecycle.state is state
    assert lifecycle.take() == expected
    assert lifecycle.take() == []
    assert lifecycle.error is (ERROR if state is State.FAILED else None)


def test_names_of_groups():
    assert {type(piece) for piece in PIECES} == set(OUTPUT)
    assert {State.COMPLETE, State.FAILED} == set(OVER)
