"""Token counts wherever a server put them."""

from __future__ import annotations

import pytest

from svir_proxy.response.usage import read_usage


def usage(prompt_tokens, completion_tokens, **details):
    total = prompt_tokens + completion_tokens
    return {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": total} | {
        f"{key}_tokens_details": value for key, value in details.items()
    }


REPORTS = {
    "OpenAI": ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}, usage(3, 2)),
    "no total": ({"prompt_tokens": 3, "completion_tokens": 2}, usage(3, 2)),
    "no completion, a total": ({"prompt_tokens": 3, "total_tokens": 5}, usage(3, 2)),
    "a total below the prompt": ({"prompt_tokens": 3, "total_tokens": 2}, usage(3, 0)),
    "the total has the reasoning that completion leaves out (xAI)": (
        {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 9},
        usage(3, 6),
    ),
    "a total that is too small": ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 1}, usage(3, 2)),
    "input and output": ({"input_tokens": 3, "output_tokens": 2}, usage(3, 2)),
    "null beside the other name": ({"prompt_tokens": None, "input_tokens": 3, "completion_tokens": 2}, usage(3, 2)),
    "whole floats": ({"prompt_tokens": 3.0, "completion_tokens": 2.0}, usage(3, 2)),
    "no answer": ({"prompt_tokens": 3, "completion_tokens": 0}, usage(3, 0)),
    "a cached prompt": ({"prompt_tokens": 0, "completion_tokens": 2}, usage(0, 2)),
    "details, and foreign keys": (
        {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 1, "text_tokens": None, "x": 7},
            "completion_tokens_details": {"reasoning_tokens": 1, "audio_tokens": 0, "x": {}},
            "queue_time": 0.1,
        },
        usage(3, 2, prompt={"cached_tokens": 1}, completion={"audio_tokens": 0, "reasoning_tokens": 1}),
    ),
    "details under the other name": (
        {
            "input_tokens": 3,
            "output_tokens": 2,
            "input_tokens_details": {"cached_tokens": 1},
            "output_tokens_details": {"reasoning_tokens": 1},
        },
        usage(3, 2, prompt={"cached_tokens": 1}, completion={"reasoning_tokens": 1}),
    ),
    "null details beside the other name": (
        {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "prompt_tokens_details": None,
            "input_tokens_details": {"cached_tokens": 1},
        },
        usage(3, 2, prompt={"cached_tokens": 1}),
    ),
    "reasoning at the top (SGLang)": (
        {"prompt_tokens": 3, "completion_tokens": 2, "reasoning_tokens": 1, "prompt_tokens_details": None},
        usage(3, 2, completion={"reasoning_tokens": 1}),
    ),
    "more reasoning than answer (Baseten)": (
        {"prompt_tokens": 3, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 8}},
        usage(3, 2, completion={"reasoning_tokens": 2}),
    ),
    "details that are none": (
        {"prompt_tokens": 3, "completion_tokens": 2, "completion_tokens_details": [1], "prompt_tokens_details": "x"},
        usage(3, 2),
    ),
}

NO_REPORTS = {
    "nothing": None,
    "no object": [1],
    "empty (LiteLLM)": {},
    "only the prompt": {"prompt_tokens": 3},
    "only the answer": {"completion_tokens": 2},
    "an answer not counted yet (Databricks)": {"prompt_tokens": 3, "completion_tokens": None, "total_tokens": 3},
    "zeros as placeholders (LocalAI, MiniMax)": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    "words": {"prompt_tokens": "3", "completion_tokens": "2"},
    "below zero": {"prompt_tokens": -1, "completion_tokens": 2},
    "booleans": {"prompt_tokens": True, "completion_tokens": True},
    "not a number": {"prompt_tokens": float("nan"), "completion_tokens": float("inf")},
    "beyond what JSON numbers are safe for": {"prompt_tokens": 1 << 60, "completion_tokens": 2},
}


@pytest.mark.parametrize(("reported", "expected"), REPORTS.values(), ids=REPORTS)
def test_reports(reported, expected):
    assert read_usage(reported) == expected


@pytest.mark.parametrize("reported", NO_REPORTS.values(), ids=NO_REPORTS)
def test_no_complete_report(reported):
    assert read_usage(reported) is None
