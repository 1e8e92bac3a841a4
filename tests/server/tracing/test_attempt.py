"""What a span tells of an attempt, however it ends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

from svir_proxy.errors import ProxyError
from svir_proxy.response.events import ContentDelta, Finished, Identified, UsageReported
from svir_proxy.server.http import ClientGone
from svir_proxy.server.tracing.attempt import Attempt, TracedAnswer


def _attempt(*, sampled: bool = True) -> tuple[Attempt, Any]:
    provider = TracerProvider(sampler=ALWAYS_ON if sampled else ALWAYS_OFF, shutdown_on_exit=False)
    span = provider.get_tracer("t").start_span("s")
    return Attempt(span, {}), span


def _ended(attempt: Attempt, span: Any, exc: BaseException | None = None) -> ReadableSpan:
    attempt.__enter__()
    attempt.__exit__(type(exc) if exc is not None else None, exc, None)
    assert span.end_time is not None
    return span  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("exc", "error", "told", "failed"),
    [
        (None, None, {}, False),
        (None, ProxyError("upstream_timeout", "the prompt"), {"error.type": "upstream_timeout"}, True),
        (asyncio.CancelledError(), None, {"svir.error": "cancelled"}, False),
        (ClientGone(), None, {"svir.error": "cancelled"}, False),
        (KeyError("the prompt"), None, {"error.type": "KeyError"}, True),
    ],
)
def test_an_end(exc: BaseException | None, error: ProxyError | None, told: dict[str, str], failed: bool) -> None:
    attempt, span = _attempt()
    attempt.error = error
    ended = _ended(attempt, span, exc)
    assert dict(ended.attributes or {}) == told
    assert (not ended.status.is_ok) is failed
    assert ended.status.description is None
    assert not ended.events


def test_what_came_is_handed_on_and_told_once_of() -> None:
    attempt, span = _attempt()
    attempt.streamed, attempt.status, attempt.notes = True, 200, ("a=b", "c=" + "d" * 999)
    came: list[Any] = []
    calls: list[str] = []
    under: Any = SimpleNamespace(
        gathers=True,
        is_timed=False,
        has_output=True,
        take=came.extend,
        tick=lambda now: now + 1,
        begin_source=calls.append,
        end_source=lambda silence: calls.append(f"end {silence}"),
    )
    answer = TracedAnswer(under, attempt)
    events = [Identified("i", 1, "m"), ContentDelta("x"), UsageReported({"prompt_tokens": 2}), Finished("length")]
    answer.take([])
    assert attempt.first_chunk is None
    answer.take(events[:1])
    assert (attempt.first_chunk is None, attempt.first_output) == (False, None)
    answer.take(events[1:])
    assert came == events
    assert (answer.gathers, answer.has_output, answer.tick(1.0)) == (True, True, 2.0)
    answer.begin_source("source")  # type: ignore[arg-type]
    answer.end_source(0.5)
    assert calls == ["source", "end 0.5"]
    told = dict(_ended(attempt, span).attributes or {})
    assert 0 <= told.pop("gen_ai.response.time_to_first_chunk") <= told.pop("svir.time_to_first_output")
    assert [len(note) for note in told.pop("svir.rewrites")] == [3, 200]
    assert told == {
        "gen_ai.response.finish_reasons": ("length",),
        "gen_ai.response.id": "i",
        "gen_ai.response.model": "m",
        "gen_ai.usage.input_tokens": 2,
        "http.response.status_code": 200,
    }


def test_a_plain_answer_has_no_first_chunk() -> None:
    attempt, span = _attempt()
    attempt.first_chunk = attempt.first_output = attempt._began
    assert not _ended(attempt, span).attributes


def test_what_is_not_sampled_costs_nothing_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    attempt, span = _attempt(sampled=False)
    monkeypatch.setattr(Attempt, "_told", None)
    with attempt:
        attempt.error = ProxyError("upstream_failed", "no")
    assert not span.is_recording()
