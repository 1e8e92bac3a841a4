"""The server's own words, wherever it put them."""

from __future__ import annotations

import json

import pytest

from svir_proxy.response.error_words import MAX_WORDS, UpstreamError, has_error, read_body, read_value

SAID = UpstreamError

VALUES = {
    # where the words are
    "OpenAI": (
        {"error": {"message": "m", "type": "t", "param": "p", "code": "c"}},
        SAID("m", code="c", type="t", param="p"),
    ),
    "a text": ({"error": "m"}, SAID("m")),
    "detail as text (mlx-vlm)": ({"detail": "m"}, SAID("m")),
    "detail as list (FastAPI)": (
        {"detail": [{"type": "list_type", "loc": ["body", "messages", 0], "msg": "m"}, {"msg": "n", "loc": ["x"]}, {"msg": "o"}, {}]},
        SAID("m; n (x); o", type="list_type", param="messages.0"),
    ),
    "detail as object (KoboldCpp)": ({"detail": {"msg": "m", "type": "service_unavailable"}}, SAID("m", type="service_unavailable")),
    "errors beside a heading": ({"detail": "Validation Error", "errors": [{"message": "m", "loc": "body -> x"}]}, SAID("m", param="x")),
    "flat (Mistral, vLLM's older form)": (
        {"object": "error", "message": "m", "type": "t", "param": None, "code": 400},
        SAID("m", type="t", status=400),
    ),
    "a list (Gemini)": ([{"error": {"message": "m", "code": 429}}], SAID("m", status=429)),
    "a list of texts": ([None, "m"], SAID("m")),
    "a list of neither": ({"error": [7]}, SAID()),
    "no object at all": (7, SAID()),
    "error_message": ({"error": {"error_message": "m"}}, SAID("m")),
    "details": ({"error": {"details": "m"}}, SAID("m")),
    "a message that is an object": ({"message": {"detail": "m"}}, SAID("m")),
    "inner words before outer ones": ({"message": "outer", "error": {"message": "m", "type": "t"}, "type": "o"}, SAID("m", type="t")),
    "nothing": ({}, SAID()),
    "no words": ({"error": {"message": None, "type": 7, "param": [], "code": {}}}, SAID()),
    "nested too deeply": (json.loads('{"error":' * 12 + '"m"' + "}" * 12), SAID()),
    "too many of them": ({"error": " " + "m" * 9000}, SAID("m" * MAX_WORDS)),
    # codes
    "a numeric code": ({"error": {"message": "m", "code": 503}}, SAID("m", status=503)),
    "a numeric code as text (LiteLLM)": ({"error": {"message": "m", "code": "400"}}, SAID("m", status=400)),
    "a status beside a code (Azure)": ({"error": {"message": "m", "code": "c", "status": 400}}, SAID("m", code="c", status=400)),
    "status_code": ({"message": "m", "status_code": 422}, SAID("m", status=422)),
    "the first status counts": ({"error": {"code": 400}, "code": 500}, SAID(status=400)),
    "a number that is no HTTP error": ({"error": {"message": "m", "code": 1261}}, SAID("m")),
    "a status in words": ({"error": {"message": "m", "status": "RESOURCE_EXHAUSTED"}}, SAID("m")),
    "the verdict beside it (Azure)": (
        {"error": {"message": "m", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
        SAID("m", filtered=True),
    ),
    "another inner error": ({"error": {"message": "m", "innererror": {"code": "x"}}}, SAID("m")),
    # fields
    "a param with its body": ({"error": {"message": "m", "param": "body.x"}}, SAID("m", param="x")),
    "a place that is only the body": ({"detail": [{"msg": "m", "loc": ["body"]}]}, SAID("m")),
    "a param and a place": ({"error": {"message": "m", "param": "p", "loc": ["body", "x"]}}, SAID("m", param="p")),
    # JSON in the message
    "the whole message (Gemini's proxies)": (
        {"error": {"message": '{"error": {"message": "m", "code": 429, "type": "t"}}', "code": "c"}},
        SAID("m", code="c", type="t", status=429),
    ),
    "behind words (LiteLLM)": (
        {"error": {"message": 'litellm: {"message": "m", "code": "c", "param": "p"}'}},
        SAID('litellm: {"message": "m", "code": "c", "param": "p"}', code="c", param="p"),
    ),
    "a list in the message": ({"error": {"message": '[{"message": "m", "code": 400}]'}}, SAID("m", status=400)),
    "only a status in it": ({"error": {"message": '{"code": 400}'}}, SAID('{"code": 400}', status=400)),
    "braces that are no JSON": ({"error": {"message": "use {name} here"}}, SAID("use {name} here")),
    "JSON that says nothing": ({"error": {"message": 'got {"x": 1}'}}, SAID('got {"x": 1}')),
}  # fmt: skip

BODIES = {
    "JSON": (b' {"error": "m"}\n', SAID("m")),
    "JSON behind a byte order mark": (b'\xef\xbb\xbf{"error": "m"}', SAID("m")),
    "an event": (b'data: {"error": "m"}\n\ndata: [DONE]\n\n', SAID("m")),
    "a named event": (b'event: error\r\ndata: {"error": "m"}\r\n\r\n', SAID("m")),
    "an event in plain words": (b": x\nevent: error\ndata: it broke\n\n", SAID("it broke")),
    "plain text": (b" it broke \n", SAID("it broke")),
    "broken JSON": (b'{"error": ', SAID('{"error":')),
    "nothing": (b"", SAID()),
    "words behind 64 KiB of markup": (b"<script" * 10_000 + b">x</script>m", SAID(("<script" * 10_000)[:MAX_WORDS])),
    "HTML": (
        b"<html><head><style>p {}</style><script>x</script></head><body><h1>502\n</h1> Bad <b>gateway</b></body></html>",
        SAID("502 Bad gateway"),
    ),
    "HTML that ends in a script": (b"<p>m</p><script>x", SAID("m")),
    "broken UTF-8": (b"it\xff", SAID("it\ufffd")),
    "too much": (b"m" * 9000, SAID("m" * MAX_WORDS)),
}

ERRORS = [
    {"error": {"message": "m"}},
    {"error": "m", "choices": [{}]},
    {"object": "error"},
    {"detail": "m"},
    {"errors": ["m"]},
    {"message": "m"},
    {"message": ""},
    [{"error": "m"}],
]

NO_ERRORS = [
    {},
    {"error": None},
    {"error": ""},
    {"error": {}},
    {"error": False, "choices": []},
    {"detail": ""},
    {"message": {"content": "a"}},
    {"message": "m", "choices": [{}]},
    {"message": "m", "usage": None},
    {"object": "list"},
    [],
    ["error"],
    [{}],
    "error",
    7,
    None,
]


@pytest.mark.parametrize(("value", "expected"), VALUES.values(), ids=VALUES)
def test_values(value, expected):
    assert read_value(value) == expected


@pytest.mark.parametrize(("body", "expected"), BODIES.values(), ids=BODIES)
def test_bodies(body, expected):
    assert read_body(body) == expected


@pytest.mark.parametrize("value", ERRORS, ids=repr)
def test_what_is_an_error(value):
    assert has_error(value)


@pytest.mark.parametrize("value", NO_ERRORS, ids=repr)
def test_what_is_none(value):
    assert not has_error(value)
