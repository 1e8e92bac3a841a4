"""What a record tells of an answer, while it comes and after it, however it is delivered."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from svir_proxy.response.events import ContentDelta, Event, Finished, Identified, ReasoningDelta, UsageReported
from svir_proxy.server.answer import StreamedAnswer, WholeAnswer
from svir_proxy.server.request_record import Progress, RequestRecord
from svir_proxy.settings import StreamingSettings
from tests.server.support import Wire, client_request

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
EVENTS: list[list[Event]] = [
    [Identified("id", 1, "m")],
    [ContentDelta("a"), ContentDelta("b")],
    [Finished("length"), UsageReported(USAGE)],
]

Answer = StreamedAnswer | WholeAnswer


def streamed() -> StreamedAnswer:
    return StreamedAnswer(client_request(), Wire().send, lambda _: [], StreamingSettings())


def told(progress: Progress) -> tuple[object, ...]:
    return progress.pieces, progress.first_output is not None, progress.usage, progress.finish_reason


@pytest.mark.parametrize("make", [streamed, lambda: WholeAnswer(client_request())], ids=["stream", "whole"])
async def test_an_answer_tells_what_has_come_of_it(make: Callable[[], Answer]) -> None:
    answer = make()
    record = RequestRecord("r", "POST", "/v1/chat/completions", answer=answer)
    steps = []
    for events in EVENTS:
        answer.take(events)
        assert record.answer is answer
        steps.append(told(answer))
    # usage is known whether or not the client asked for it
    assert steps == [(1, False, None, None), (3, True, None, None), (5, True, USAGE, "length")]
    assert answer.first_output is not None
    assert answer.first_output >= record.began


@pytest.mark.parametrize("make", [streamed, lambda: WholeAnswer(client_request())], ids=["stream", "whole"])
async def test_another_backends_answer_is_told_alone(make: Callable[[], Answer]) -> None:
    answer = make()
    answer.take([Identified("id", 1, "m"), UsageReported(USAGE)])
    answer.restart()
    assert told(answer) == (0, False, None, None)


@pytest.mark.parametrize("make", [streamed, lambda: WholeAnswer(client_request())], ids=["stream", "whole"])
@pytest.mark.parametrize(
    ("first", "has_reasoning"), [(ReasoningDelta("r"), True), (ContentDelta("a"), False), (Finished("stop"), False)]
)
async def test_whether_it_began_with_reasoning(make: Callable[[], Answer], first: Event, has_reasoning: bool) -> None:
    answer = make()
    answer.take([first, ReasoningDelta("later")])
    answer.end_source(0.25)
    assert answer.has_reasoning == has_reasoning
    assert answer.first_output is not None
    assert answer.last_output is not None
    assert answer.last_output < answer.first_output, "so long ago"
    answer.restart()
    assert answer.last_output is None


def test_records_are_apart_even_when_they_are_alike() -> None:
    assert len({RequestRecord("r", "GET", "/", began=0), RequestRecord("r", "GET", "/", began=0)}) == 2
