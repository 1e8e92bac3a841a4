"""Servers whose streams break one rule each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.conform.rules.table import Server, breaks, check
from tests.conform.servers import (
    DONE,
    MODEL,
    becomes,
    broken,
    chunk,
    envelope,
    headers,
    holding,
    in_bytes,
    in_events,
    said,
    stream,
    streams,
    to,
)

EVENT_STREAM = "text/event-stream"
ONE = to("stream")
LATE = chunk({"content": "late"})


def _first(**choice: Any) -> Server:
    return breaks(in_events(lambda items: items[0]["choices"][0].update(choice)))


def _second(**keys: Any) -> Server:
    return breaks(in_events(lambda items: items[1].update(keys)))


def _finish(items: list[Any]) -> int:
    """Where the finish chunk is."""
    return next(n for n, item in enumerate(items) if item != DONE and item["choices"][0]["finish_reason"])


def _put(items: list[Any], place: int, item: Any) -> list[Any]:
    return [*items[:place], item, *items[place:]]


SERVERS: dict[str, Server] = {
    "stream-answered": breaks(becomes(to("stream"), lambda request: stream(request, [DONE])), "finish-missing"),
    "stream-content-type": breaks(headers(streams, content_type=EVENT_STREAM)),
    "stream-cache-control": breaks(headers(streams, cache_control=None)),
    "stream-x-accel-buffering": breaks(headers(streams, x_accel_buffering=None)),
    "framing-bom": breaks(in_bytes(streams, lambda body: b"\xef\xbb\xbf" + body)),
    "framing-utf8": breaks(said(streams, b"It pas", b"It p\xff")),
    "framing-cr": breaks(said(streams, b"\n", b"\r\n")),
    "framing-line": breaks(in_bytes(streams, lambda body: b"event: message\n" + body)),
    "framing-event": breaks(in_bytes(streams, lambda body: body.replace(b"\n\n", b"\n\n\n", 1))),
    "json": breaks(said(streams, b"data: [DONE]", b"data: {\n\ndata: [DONE]")),
    "json-duplicate": breaks(in_bytes(streams, lambda body: body.replace(b"{", b'{"created": 1, ', 1))),
    "end-missing": breaks(in_events(lambda items: items[:-1])),
    "chunk-shape": _second(object="chat.completion"),
    "chunk-foreign": _second(timings={"predicted_ms": 1}),
    "chunk-logprobs": breaks(in_events(lambda items: items[1]["choices"][0].pop("logprobs"))),
    "id-constant": _second(id="chatcmpl-2"),
    "model-constant": _second(model=f"{MODEL}-2"),
    "created-constant": _second(created=1_790_000_001),
    "role-first": _first(delta={"content": ""}),
    "role-once": breaks(in_events(lambda items: items[1]["choices"][0]["delta"].update(role="assistant"))),
    "delta-first": _first(delta={"role": "assistant", "content": None}),
    "delta-empty": breaks(in_events(lambda items: _put(items, 1, chunk({})))),
    "delta-blank": breaks(in_events(lambda items: items[1]["choices"][0]["delta"].update(refusal=None))),
    "finish-missing": breaks(in_events(lambda items: items[: _finish(items)] + items[_finish(items) + 1 :], ONE)),
    "finish-once": breaks(in_events(lambda items: _put(items, _finish(items), items[_finish(items)]))),
    "finish-delta": breaks(
        in_events(lambda items: items[_finish(items)]["choices"][0].update(delta={"content": "!"}), ONE)
    ),
    "finish-last": breaks(in_events(lambda items: _put(items, _finish(items) + 1, LATE), ONE)),
    "end-done": breaks(in_events(lambda items: [*items, LATE], ONE), "finish-last"),
    "end-error": breaks(in_bytes(holding(b"upstream_failed"), lambda body: body + b"data: [DONE]\n\n")),
    "error-early": breaks(
        becomes(to("too long, streamed"), lambda request: stream(request, [envelope(400, "context_length_exceeded")])),
        "too-long",
    ),
}


def test_a_failure_after_a_long_silence_has_no_status_of_its_own() -> None:
    early = SERVERS["error-early"].change
    assert broken(early)
    assert broken(lambda question, exchange: replace(early(question, exchange), seconds=6)) == set()


@pytest.mark.parametrize("rule", SERVERS)
def test_a_breach_is_found_and_no_other(rule: str) -> None:
    check(rule, SERVERS[rule])
