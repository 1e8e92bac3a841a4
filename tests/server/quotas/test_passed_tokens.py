"""The tokens of answers that nobody reads, from their bytes."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.server.quotas.passed_tokens import PassedMeter

LARGE = [0.125] * 15_000
USAGE = {"prompt_tokens": 8, "total_tokens": 8}


def tokens(*data: bytes, size: int = 0, failed: bool = False) -> int:
    meter = PassedMeter(lambda: size)
    meter.asked = True
    for piece in data:
        meter.feed(piece)
    return meter.tokens(None, failed=failed)


def said(**value: Any) -> bytes:
    return json.dumps(value).encode()


def events(*values: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values) + b"data: [DONE]\n\n"


LONG = events(*({"choices": [{"text": "x" * 50}]} for _ in range(500)))

CASES = {
    "embeddings as OpenAI has them, usage last": (said(data=[{"embedding": LARGE}], usage=USAGE), 8),
    "embeddings as llama.cpp has them, usage first": (said(usage=USAGE, data=[{"embedding": LARGE}]), 8),
    "a reranker that counts one way only": (said(results=[], usage={"total_tokens": 15}), 15),
    "a completion": (said(choices=[{"text": "hi"}], usage={"prompt_tokens": 1, "completion_tokens": 4}), 5),
    "a stream, usage in the last event": (LONG + events({"usage": {"prompt_tokens": 3, "completion_tokens": 500}}), 503),
    "responses: the last event has all of it": (
        events({"type": "response.completed", "response": {"output": ["x" * 99], "usage": {"input_tokens": 7, "output_tokens": 9}}}),
        16,
    ),
    "responses: behind the report is what the client wrote, as large as may be": (
        said(output=["x" * 99], usage={"input_tokens": 7, "output_tokens": 9}, metadata={f"{i:064}": "\u00e9" * 512 for i in range(16)}),
        16,
    ),
    "running totals: the last counts": (events(*({"usage": {"prompt_tokens": 3, "completion_tokens": n}} for n in (1, 2))), 5),
    "a text that looks like a report": (said(choices=[{"text": '"usage": {"prompt_tokens": 0, "total_tokens": 1}'}]), 0),
    "a report within the text does not hide the real one": (
        said(usage={"prompt_tokens": 2, "completion_tokens": 2}, text='"usage": {"total_tokens": 1}'), 4,
    ),
    "seconds of speech are no tokens": (said(text="hi", usage={"type": "duration", "seconds": 3}), 0),
    "a stream without a report: its events": (events({}, {}, {}), 4),
    "null": (said(usage=None), 0),
    "cut off within the report": (said(usage=USAGE)[:-4], 0),
    "nothing": (b"", 0),
    "no JSON": (b'\xff\xfe"usage":{"a":\xff', 0),
    "deeply nested": (b'"usage":' + b'{"a":' * 5000, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_reported(name: str) -> None:
    data, total = CASES[name]
    assert tokens(data) == total


@given(st.sampled_from([data for data, _ in CASES.values()]), st.lists(st.integers(0, 60000), max_size=4))
def test_reports_are_found_however_the_bytes_are_cut(data: bytes, cuts: list[int]) -> None:
    ends = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in itertools.pairwise(ends)]
    whole = PassedMeter()
    whole.asked = True
    whole.feed(data)
    if (total := whole.tokens(None, failed=False)) and b'"usage"' in data:
        assert tokens(*pieces) == total


@pytest.mark.parametrize(
    ("answer", "failed", "total"),
    [
        (said(data=[]), False, 25),  # no report: about what the request has
        (events({}), True, 25 + 2),  # a stream that broke off, or whose client left
        (b"", False, 25),
        (b"", True, 0),
    ],
)
def test_what_is_not_reported(answer: bytes, *, failed: bool, total: int) -> None:
    assert tokens(answer, size=100, failed=failed) == total


def test_no_more_is_kept_than_the_two_ends() -> None:
    meter = PassedMeter()
    for _ in range(100):
        meter.feed(bytes(50_000))
    assert len(meter._first) == len(meter._last) == 64 * 1024


def test_what_comes_of_the_request_after_its_model_counts_too() -> None:
    came = [10]
    meter = PassedMeter(lambda: came[0])
    meter.asked = True
    came[0] = 4000
    assert meter.tokens(None, failed=False) == 1000
