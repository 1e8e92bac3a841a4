"""A batch of faults by chance, and that its judge is not deaf."""

from __future__ import annotations

import dataclasses
import random

import pytest

from svir_proxy.conform.judge import Seen
from tests.faults.batch import must_see, plan, run, wire
from tests.faults.judge import Sees, judge
from tests.faults.wire import DOCUMENT, EVENTS, STREAM, dumps


async def test_a_batch() -> None:
    report = await run(400, seed=0)
    assert report.findings == []
    assert report.faults.total() == 400
    assert len(report.faults) > 10
    assert min(report.outcomes["whole"], report.outcomes["stream_truncated"], report.outcomes["upstream_timeout"]) > 20
    assert report.repeated > 0
    before, after = report.objects
    assert after < before + 20, "the proxy kept something of each exchange"


def test_a_seed_is_a_plan() -> None:
    assert plan("1/7") == plan("1/7")
    assert plan("1/7") != plan("1/8")


_STREAM = {"content-type": "text/event-stream; charset=utf-8", "x-request-id": "r"}


def canonical(*events: object) -> bytes:
    common = {"id": "i", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"".join(
        b"data: " + (dumps({**common, **event} if "choices" in event else event) if isinstance(event, dict) else b"[DONE]") + b"\n\n"
        for event in events
    )  # fmt: skip


def choice(delta: dict[str, str], finish: str | None = None) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}


ROLE = choice({"role": "assistant", "content": ""})
ONE, TWO = choice({"content": "One"}), choice({"content": " two"})
CUT = {"error": {"message": "cut", "type": "upstream_error", "param": None, "code": "stream_truncated"}}
SEES = Sees(2, "stream_truncated")


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (canonical(ROLE, ONE, TWO, CUT), False),
        (canonical(ROLE, ONE, CUT), True),
        (canonical(ROLE, ONE, TWO, TWO, CUT), True),
        (canonical(ROLE, ONE, TWO), True),
        (canonical(ROLE, ONE, TWO, CUT, "[DONE]"), True),
        (canonical(ROLE, ONE, TWO, choice({}, "stop"), CUT), True),
        (canonical(ROLE, ONE, TWO, choice({}, "stop"), "[DONE]"), True),
        (canonical(ROLE, ONE, TWO, {"error": {**CUT["error"], "code": "upstream_failed"}}), True),
        (canonical(ROLE, ONE, TWO, {"error": {**CUT["error"], "message": "upstream-secret"}}), True),
        (canonical(ROLE, ONE, TWO, CUT)[:-1], True),
    ],
    ids=["right", "lost", "twice", "no end", "done", "finish", "whole", "another error", "key", "half an event"],
)
def test_the_judge_of_streams(body: bytes, wrong: bool) -> None:
    assert bool(judge(SEES, Seen(200, _STREAM, body), streamed=True)) is wrong


@pytest.mark.parametrize(
    "seen",
    [
        Seen(200, _STREAM, canonical(ROLE, ONE, TWO, CUT), clean=False),
        Seen(502, _STREAM, canonical(ROLE, ONE, TWO, CUT)),
        Seen(200, {"x-request-id": "r"}, canonical(ROLE, ONE, TWO, CUT)),
        Seen(200, {"content-type": _STREAM["content-type"]}, canonical(ROLE, ONE, TWO, CUT)),
    ],
    ids=["cut off", "status", "content-type", "no id"],
)
def test_the_judge_of_what_is_around(seen: Seen) -> None:
    assert judge(SEES, seen, streamed=True)


@pytest.mark.parametrize("seed", range(30))
def test_what_must_be_seen_of_each_point(seed: int) -> None:
    """The reading of the wire in broad strokes: the further a cut, the more is seen; only the end is whole."""
    rng = random.Random(seed)
    answer = wire(rng, stream=seed % 3 > 0)
    size = len(answer.data)
    assert answer.content(size)[0] == len(STREAM if answer.stream else DOCUMENT)
    seen = [must_see(answer, cut, "reset", streamed=True) for cut in range(size + 1)]
    words = [sees.words for sees in seen]
    assert words == sorted(words)
    assert [sees.error for sees in seen[: len(answer.head)]] == ["upstream_failed"] * len(answer.head)
    whole = [sees.error is None for sees in seen]
    assert whole == sorted(whole)
    ended = must_see(answer, size, "close", streamed=True)
    assert ended == Sees()
    if answer.stream:
        assert set(words) == set(range(6))
        assert whole[size] and not whole[size - sum(len(part) for part, _ in answer.parts[-len(EVENTS) :])]  # noqa: PT018
    for sees in seen:
        assert dataclasses.replace(sees, words=0) in {Sees(0), Sees(0, "upstream_failed"), Sees(0, "stream_truncated")}
