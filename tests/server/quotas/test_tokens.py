"""What a request is taken to have cost, with a report and without."""

from __future__ import annotations

import asyncio

import pytest

from svir_proxy.response.events import (
    ArgumentsDelta,
    ContentDelta,
    Event,
    Finished,
    Identified,
    ReasoningDelta,
    UsageReported,
)
from svir_proxy.server.answer import WholeAnswer
from svir_proxy.server.quotas.tokens import Meter, Metered
from tests.server.support import client_request

USAGE = {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42}
START: list[Event] = [Identified("id", 1, "m")]


@pytest.mark.parametrize(
    ("events", "usage", "asked", "failed", "tokens"),
    [
        # as reported, to the client or in an answer that was never let out
        ([ContentDelta("a" * 4000)], USAGE, True, False, 42),
        ([ContentDelta("a" * 4000), UsageReported(USAGE)], None, True, True, 42),
        # not reported: the request (100 bytes: 25), and what came
        ([ContentDelta("a" * 40)], None, True, False, 25 + 10),
        ([ContentDelta("a")] * 40, None, True, False, 25 + 40),
        ([ReasoningDelta("aaaa"), ArgumentsDelta(0, "aaaa")], None, True, True, 25 + 2),
        ([Finished("stop")], None, True, False, 25),
        # the client left before anything came: the server read the request
        ([], None, True, False, 25),
        # in the line of a backend, or refused by the server: nothing was done
        ([], None, False, False, 0),
        ([], None, True, True, 0),
    ],
)
def test_tokens(events: list[Event], usage: dict[str, int] | None, *, asked: bool, failed: bool, tokens: int) -> None:
    meter = Meter(100)
    meter.asked = asked
    meter.take(START + events)
    assert meter.tokens(usage, failed=failed) == tokens


def test_a_picture_has_a_price_of_its_own() -> None:
    assert Meter(10, media=2).prompt == 3 + 2000


class _Source:
    def pause(self) -> None: ...

    def resume(self) -> None: ...


async def test_a_metered_answer_is_the_answer() -> None:
    answer, meter = WholeAnswer(client_request()), Meter()
    metered = Metered(answer, meter)
    assert not metered.has_output
    assert metered.gathers
    metered.begin_source(_Source())
    metered.take([*START, ContentDelta("hello"), UsageReported(USAGE)])
    metered.end_source()
    assert metered.has_output
    assert answer.usage == meter.reported == USAGE
    now = asyncio.get_running_loop().time()
    assert metered.tick(now) == answer.tick(now)
