"""What a server says outside of the protocol."""

from __future__ import annotations

import json

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
    "as deep as anybody reads": ({"x": json.loads("[" * 32 + "]" * 32)}, {"x": json.loads("[" * 32 + "]" * 32)}),
    "deeper, in the chunk": ({"x": json.loads("[" * 33 + "]" * 33), "y": 1}, {"y": 1}),
    "deeper, in a choice": ({"choices": [{"x": json.loads('{"a":' * 33 + "1" + "}" * 33), "y": 1}]}, {"y": 1}),
    "a list": ([{"x": 1}], {}),
    "null": (None, {}),
}


@pytest.mark.parametrize(("chunk", "expected"), CHUNKS.values(), ids=CHUNKS)
def test_chunks(chunk, expected):
    assert read_extras(chunk) == expected
