"""An upstream's error to the one a client sees: rules first, secrets out, waits read."""

from __future__ import annotations

import json

import pytest

from svir_proxy.client_request import ClientRequest
from svir_proxy.profiles.schema import ErrorRule
from svir_proxy.response.upstream_error import ErrorReader

KEY = "local-secret-1"
NOW = "Wed, 21 Oct 2026 07:28:00 GMT"
REQUEST = ClientRequest.from_body({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}, id="r", received=7)


def reader(*rules):
    parsed = [ErrorRule.model_validate({"when": when, "then": then}) for when, then in rules]
    return ErrorReader(REQUEST, parsed, (KEY, ""))


def answered(status, said, headers=None, rules=()):
    return reader(*rules).from_response(status, headers or {}, json.dumps(said).encode())


WORDS = {
    # status, what was said: kind, message, param, code
    "the server's own": (
        400,
        {"error": {"message": "bad", "param": "top_p", "code": "bad_value"}},
        ("invalid_request", "bad", "top_p", "bad_value"),
    ),
    "a code that is none": (400, {"error": {"message": "bad", "code": "no such thing!"}}, ("invalid_request", "bad", None, None)),
    "a code for another kind is ours": (500, {"error": {"message": "bad", "code": "E7"}}, ("upstream_failed", "bad", None, None)),
    "nothing": (500, {}, ("upstream_failed", "The server answered 500 without a word.", None, None)),
    "an overflow, for the clients that look for its words": (
        400,
        {"error": {"message": "too long ", "code": "context_length_exceeded"}},
        ("context_length_exceeded", "too long (The prompt is too long: it exceeds the context window of this model, its maximum context length.)", None, None),
    ),
    "an overflow that has them": (
        400,
        {"error": "The prompt is too long: it exceeds the context window, whose maximum context length is 7."},
        (
            "context_length_exceeded",
            "The prompt is too long: it exceeds the context window, whose maximum context length is 7.",
            None,
            None,
        ),
    ),
    "the proxy's key": (
        401,
        {"error": "bad key"},
        ("upstream_auth_failed", "The server refused the proxy's key (api_key of the backend): bad key", None, None),
    ),
    "a wrong path": (
        404,
        {"detail": "Not Found"},
        ("upstream_bad_response", "Not Found (The server has no such path: check the backend's base_url.)", None, None),
    ),
    "half a character": (
        400,
        {"error": {"message": "bad \ud83d", "param": "x\ud83d"}},
        ("invalid_request", "bad \ufffd", "x\ufffd", None),
    ),
    "a param without end": (400, {"error": {"message": "bad", "param": "x" * 999}}, ("invalid_request", "bad", "x" * 200, None)),
}  # fmt: skip

SECRETS = {
    "the upstream's key": (f"key {KEY} is wrong", "key [key] is wrong"),
    "a key of a known make": ("Incorrect API key: sk-proj-abcdefghijkl.", "Incorrect API key: [key]."),
    "a header": ("sent Authorization: Bearer abcdefgh12345", "sent Authorization: Bearer [key]"),
    "credentials of a URL": ("GET http://me:pass@host/v1 and https://tok@host", "GET http://[credentials]@host/v1 and https://[credentials]@host"),
    "words that look like none": ("bearer of bad news; sk-short; me@host", "bearer of bad news; sk-short; me@host"),
}  # fmt: skip

WAITS = {
    # headers, message: seconds
    "seconds": ({"retry-after": "7"}, "x", 7),
    "a fraction": ({"retry-after": "0.5"}, "x", 0.5),
    "milliseconds first": ({"retry-after-ms": "250", "retry-after": "7"}, "x", 0.25),
    "broken milliseconds": ({"retry-after-ms": "soon", "retry-after": "7"}, "x", 7),
    "a date": ({"retry-after": "Wed, 21 Oct 2026 07:28:09 GMT", "date": NOW}, "x", 9),
    "a date without now": ({"retry-after": "Wed, 21 Oct 2026 07:28:09 GMT"}, "x", None),
    "a date in the past": ({"retry-after": "Wed, 21 Oct 2026 07:27:00 GMT", "date": NOW}, "x", None),
    "a date beyond any calendar": ({"retry-after": "Wed, 21 Oct 99999999999999999999 07:28:09 GMT", "date": NOW}, "x", None),
    "below zero": ({"retry-after": "-1"}, "again in 3s", 3),
    "not a number": ({"retry-after": "nan"}, "x", None),
    "words, seconds": ({}, "Please try again in 2.5s.", 2.5),
    "words, no unit": ({}, "Retry after 20", 20),
    "words, milliseconds": ({}, "try again in 350ms", 0.35),
    "words, minutes": ({}, "wait 2 minutes", 120),
    "words, hours": ({}, "try again in 1 hour", 3600),
    "nothing": ({}, "x", None),
}  # fmt: skip


@pytest.mark.parametrize(("status", "said", "expected"), WORDS.values(), ids=WORDS)
def test_words(status, said, expected):
    error = answered(status, said)
    assert (error.kind, error.message, error.param, error.code) == expected
    assert json.loads(error.body())["error"]["message"] == error.message


@pytest.mark.parametrize(("said", "expected"), SECRETS.values(), ids=SECRETS)
def test_no_secret_leaves(said, expected):
    assert answered(400, {"error": said}).message == expected
    assert reader().from_text(said.encode()).message == expected
    assert reader().from_finish("error", said).message.startswith(expected)


def test_no_secret_leaves_in_other_fields():
    error = answered(400, {"error": {"message": "bad", "code": KEY, "param": f"key {KEY}"}})
    assert (error.code, error.param) == (None, "key [key]")


@pytest.mark.parametrize(("headers", "message", "expected"), WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("status", [429, 503])
def test_waits(status, headers, message, expected):
    assert answered(status, {"error": message}, headers).retry_after == pytest.approx(expected)


def test_a_wait_belongs_to_kinds_that_have_one():
    assert answered(500, {"error": "again in 3s"}, {"retry-after": "7"}).retry_after is None
    assert reader().from_stream({"error": {"message": "again in 3s", "code": 429}}).retry_after == 3
    assert reader().from_stream({"error": "again in 3s"}).retry_after is None


RULES = {
    # the rule's condition: whether it matches
    "everything": ({}, True),
    "status": ({"status": 500}, True),
    "another status": ({"status": 400}, False),
    "code": ({"code": "E7"}, True),
    "another code": ({"code": "E8"}, False),
    "type": ({"type": "T"}, True),
    "another type": ({"type": "U"}, False),
    "message": ({"message": "^it BROKE"}, True),
    "another message": ({"message": "fine"}, False),
    "all of them": ({"status": 500, "code": "E7", "type": "T", "message": "broke"}, True),
    "all but one": ({"status": 500, "code": "E7", "type": "U", "message": "broke"}, False),
}


@pytest.mark.parametrize(("when", "matches"), RULES.values(), ids=RULES)
def test_the_profile_rules_come_first(when, matches):
    said = {"error": {"message": "It broke", "code": "E7", "type": "T"}}
    error = answered(500, said, rules=[(when, "overloaded"), ({}, "upstream_timeout")])
    assert error.kind == ("overloaded" if matches else "upstream_timeout")


def test_a_finish_that_is_a_failure():
    error = reader().from_finish("error")
    assert (error.kind, error.message) == ("upstream_failed", "The server ended the answer with finish_reason 'error'.")
    assert reader().from_finish("error", "it broke").message == f"it broke ({error.message})"
    assert len(reader().from_finish("error", "x" * 100_000).message) < 5000
