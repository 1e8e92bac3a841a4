"""The judge itself: a right answer passes, and each fault is named."""

from __future__ import annotations

import json

import pytest

from svir_proxy.conform.cases import Case
from svir_proxy.conform.judge import UPSTREAM_KEY, Seen, judge

HEAD = {"id": "c-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": "m"}
STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", "x-accel-buffering": "no"}
HEADERS = {"x-request-id": "r", **STREAM}


def chunk(delta, finish=None):
    return {**HEAD, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}


def call(index, **function):
    opening = {"id": f"call-{index}", "type": "function"} if "name" in function else {}
    return chunk({"tool_calls": [{"index": index, **opening, "function": function}]})


def sse(*chunks) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in chunks)


ROLE = chunk({"role": "assistant", "content": ""})
USAGE = {**HEAD, "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}
DONE = b"data: [DONE]\n\n"
TEXT = sse(ROLE, chunk({"content": "Hi"}), chunk({}, "stop"), USAGE) + DONE
CALLS = (call(0, name="f", arguments=""), call(0, arguments="{}"), call(1, name="f", arguments="{}"))
ERROR = {"error": {"message": "It died.", "type": "upstream_error", "param": None, "code": "upstream_failed"}}


def case(expect, **request) -> Case:
    base = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    meta = {"request": {**base, "stream_options": {"include_usage": True}, **request}, "expect": expect}
    return Case("made", meta, b"")


ANSWER = case(
    {
        "outcome": "answer",
        "http_status": 200,
        "content": "Hi",
        "reasoning": None,
        "tool_calls": [],
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }
)
CALLED = case(
    {
        "outcome": "answer",
        "http_status": 200,
        "tool_calls": [{"name": "f", "arguments": "{ }"}, {"name": "f", "arguments": "{}"}],
        "finish_reason": "tool_calls",
    }
)
FAILED = case(
    {
        "outcome": "error",
        "http_status": 502,
        "error": {"type": "upstream_error", "code": "upstream_failed", "message_contains": "died"},
        "partial": False,
    }
)
CUT = case(
    {"outcome": "error", "http_status": 200, "error": {"type": "upstream_error"}, "content": "Hi", "partial": True}
)
HISTORY = [{"role": "assistant", "tool_calls": [{"id": "call-0", "type": "function"}]}]
PLAIN = case(
    {"outcome": "answer", "http_status": 200, "content": "Hi", "finish_reason": "stop", "usage": {"prompt_tokens": 3}},
    stream=False,
)


def completion(**message) -> bytes:
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return json.dumps({**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE["usage"]}).encode()


WHOLE_CALLS = sse(ROLE, *CALLS, chunk({}, "tool_calls")) + DONE
FAULTS = {
    "right": ("", ANSWER, Seen(200, HEADERS, TEXT)),
    "right calls": ("", CALLED, Seen(200, HEADERS, WHOLE_CALLS)),
    "right error": ("", FAILED, Seen(502, {"x-request-id": "r"}, json.dumps(ERROR).encode())),
    "right failure midway": ("", CUT, Seen(200, HEADERS, sse(ROLE, chunk({"content": "Hi"}), ERROR))),
    "right completion": (
        "",
        PLAIN,
        Seen(200, {"x-request-id": "r"}, completion(role="assistant", content="Hi", refusal=None)),
    ),
    "status": ("status 500, not 200", ANSWER, Seen(500, HEADERS, b"")),
    "no request id": ("no x-request-id", ANSWER, Seen(200, STREAM, TEXT)),
    "key leaked": ("leaked", ANSWER, Seen(200, {**HEADERS, "x-debug": f"Bearer {UPSTREAM_KEY}"}, TEXT)),
    "cut off": ("cut off", ANSWER, Seen(200, HEADERS, TEXT, clean=False)),
    "cached": ("cache-control 'public'", ANSWER, Seen(200, {**HEADERS, "cache-control": "public"}, TEXT)),
    "dialect": ("finish-missing", ANSWER, Seen(200, HEADERS, sse(ROLE, chunk({"content": "Hi"})) + DONE)),
    "other text": ("content 'Ho'", ANSWER, Seen(200, HEADERS, TEXT.replace(b"Hi", b"Ho"))),
    "other usage": (
        "usage.prompt_tokens 4",
        ANSWER,
        Seen(200, HEADERS, TEXT.replace(b": 3", b": 4").replace(b": 5", b": 6")),
    ),
    "empty delta": ("an empty delta", ANSWER, Seen(200, HEADERS, TEXT.replace(b'{"content": "Hi"}', b"{}"))),
    "blank delta": ("is blank", ANSWER, Seen(200, HEADERS, TEXT.replace(b'"Hi"', b'""'))),
    "first delta": ("the first delta", ANSWER, Seen(200, HEADERS, TEXT.replace(b'"content": ""', b'"content": null'))),
    "no calls": ("tool calls []", CALLED, Seen(200, HEADERS, TEXT)),
    "other arguments": ("arguments '[]'", CALLED, Seen(200, HEADERS, WHOLE_CALLS.replace(b'"{}"', b'"[]"'))),
    "interleaved": (
        "a piece of call 0 after call 1 began",
        CALLED,
        Seen(200, HEADERS, sse(ROLE, CALLS[0], CALLS[2], CALLS[1], chunk({}, "tool_calls")) + DONE),
    ),
    "an id of the history": (
        "call ids of the history",
        case(CALLED.expect, messages=HISTORY),
        Seen(200, HEADERS, WHOLE_CALLS),
    ),
    "error unexpected": ("an unexpected error", ANSWER, Seen(200, HEADERS, sse(ROLE, ERROR))),
    "error missing": ("an error was expected", CUT, Seen(200, HEADERS, TEXT)),
    "other code": (
        "error.code 'stream_truncated'",
        FAILED,
        Seen(502, HEADERS, json.dumps(ERROR).replace("upstream_failed", "stream_truncated").encode()),
    ),
    "words lost": ("lacks 'died'", FAILED, Seen(502, HEADERS, json.dumps(ERROR).replace("died", "ended").encode())),
    "envelope": ("schema", FAILED, Seen(502, HEADERS, b'{"error":"It died."}')),
    "no retry-after": (
        "retry-after is ''",
        case({**FAILED.expect, "http_status": 503}),
        Seen(503, HEADERS, json.dumps(ERROR).encode()),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(name: str) -> None:
    fault, made, seen = FAULTS[name]
    problems = judge(made, seen, reached=True)
    if fault:
        assert any(fault in problem for problem in problems), problems
    else:
        assert problems == []
