"""What a server says outside of the protocol."""

from __future__ import annotations

import pytest

from svir_proxy.response.extras import read_extras

CHUNKS = {
    "nothing foreign": (
        {
            "id": "c",
            "object": "x",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "delta": {"x": 1}, "finish_reason": None, "logprobs": None}],
            "usage": {"x": 1},
            "system_fingerprint": "fp",
            "service_tier": "flex",
            "error": None,
        },
        {},
    ),
    "of the chunk (llama.cpp)": ({"choices": [], "timings": {"a": 1}, "stats": None}, {"timings": {"a": 1}}),
    "of a choice (vLLM, Azure)": (
        {"choices": [{"stop_reason": 7, "token_ids": None, "content_filter_results": {}}]},
        {"stop_reason": 7, "content_filter_results": {}},
    ),
    "of both": ({"citations": ["u"], "choices": [{"matched_stop": 7}]}, {"citations": ["u"], "matched_stop": 7}),
    "choices that are none": ({"choices": {"x": 1}}, {}),
    "a choice that is none": ({"choices": ["x", None]}, {}),
    "a list": ([{"x": 1}], {}),
    "null": (None, {}),
}


@pytest.mark.parametrize(("chunk", "expected"), CHUNKS.values(), ids=CHUNKS)
def test_chunks(chunk, expected):
    assert read_extras(chunk) == expected
