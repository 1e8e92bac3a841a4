"""What kind of body it is, how it ends, and what may be wrong with it; each whole and in single bytes."""

from __future__ import annotations

import json

import pytest

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.profiles.loader import load_profile
from svir_proxy.response.events import (
    ArgumentsDelta,
    Ended,
    ExtrasReported,
    Failed,
    Finished,
    Identified,
    Noted,
    ToolCallStarted,
    UsageReported,
)
from svir_proxy.response.events import ContentDelta as Content
from svir_proxy.response.events import ReasoningDelta as Reasoning
from svir_proxy.response.normalizer import Limits, State, StreamNormalizer
from svir_proxy.response.upstream_error import ErrorReader
from tests.support.events import merged

GENERIC = load_profile("generic")
DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
STOP, END = Finished("stop"), Ended()


def a_request(**fields):
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True, **fields}
    return ClientRequest.from_body(body, id="req-1", received=7)


def tools(*names):
    return [{"type": "function", "function": {"name": name}} for name in names]


def choice(delta=None, **fields):
    return {"choices": [{"index": 0, "delta": delta or {}, **fields}]}


def sse(*values):
    return b"".join(b"data: %b\n\n" % json.dumps(value).encode() for value in values)


A, B, FINISH = choice({"content": "a"}), choice({"content": "b"}), choice(finish_reason="stop")
MESSAGE = {"choices": [{"message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}], "usage": USAGE}


def feed(normalizer, pieces, *, clean=True):
    events = [event for piece in pieces for event in normalizer.receive_data(piece)]
    events += normalizer.receive_eof(clean)
    return merged(event for event in events if not isinstance(event, Identified))


def run(body, request=None, profile=GENERIC, *, clean=True, limits=None):
    """The events but the identity; asserts that the cut of the bytes changes nothing."""
    request, limits = request or a_request(), limits or Limits()
    whole = feed(StreamNormalizer(request, profile, limits), [body], clean=clean)
    single = [bytes([byte]) for byte in body]
    assert feed(StreamNormalizer(request, profile, limits), single, clean=clean) == whole
    return whole


ANSWERS = {
    # kinds of bodies
    "a stream": (sse(A, FINISH) + DONE, [Content("a"), STOP, END]),
    "JSON": (json.dumps(MESSAGE).encode(), [Content("a"), STOP, UsageReported(USAGE), END]),
    "JSON with blanks around": (b"\r\n " + json.dumps(MESSAGE, indent=1).encode() + b"\n", [Content("a"), STOP, UsageReported(USAGE), END]),
    "JSON without a finish": (json.dumps({"choices": [{"message": {"content": "a"}}]}).encode(), [Content("a"), STOP, END]),
    "a byte order mark before a stream": (b"\xef\xbb\xbf" + sse(A) + DONE, [Content("a"), STOP, END]),
    "a byte order mark before JSON": (b"\xef\xbb\xbf" + json.dumps(MESSAGE).encode(), [Content("a"), STOP, UsageReported(USAGE), END]),
    "blanks before a stream": (b"\n\n  \n" + sse(A) + DONE, [Content("a"), STOP, END]),
    "a comment first": (b": keepalive 0/7\n\n" + sse(A) + DONE, [Content("a"), STOP, END]),
    "another field first": (b"event: message\nid: 1\nretry: 5\n" + sse(A) + DONE, [Content("a"), STOP, END]),
    # ends
    "a clean end behind a finish (Copilot, ik_llama.cpp)": (sse(A, FINISH), [Content("a"), STOP, END]),
    "[DONE] without a finish (Cloudflare)": (sse(A) + DONE, [Content("a"), STOP, END]),
    "[DONE] without its line end": (sse(A) + b"data: [DONE]", [Content("a"), STOP, END]),
    "the last event without its empty line": ((sse(A) + sse(FINISH)).rstrip(), [Content("a"), STOP, END]),
    "text behind an early finish": (sse(A, FINISH, B) + DONE, [Content("ab"), STOP, END]),
    "anything behind [DONE]": (sse(A) + DONE + b"data: broken\n\n" + sse({"error": "x"}), [Content("a"), STOP, END]),
    "usage behind the finish": (sse(A, FINISH, {"choices": [], "usage": USAGE}) + DONE, [Content("a"), STOP, UsageReported(USAGE), END]),
    # events
    "empty and comment events": (b"data:\n\ndata: : x\n\n" + sse(A) + b"data: null\n\ndata: {}\n\n" + DONE, [Content("a"), STOP, END]),
    "an event of any name": (b"event: delta\n" + sse(A) + DONE, [Content("a"), STOP, END]),
    "blanks around the payload": (b"data:   " + json.dumps(A).encode() + b"  \n\ndata:  [DONE] \n\n", [Content("a"), STOP, END]),
    "glued events": (sse(A).strip() + sse(B).strip() + b"[DONE]\n\n", [Content("ab"), STOP, END]),
    "no empty line between events (Baseten)": (sse(A).strip() + b"\n" + sse(B).strip() + b"\n" + DONE, [Content("ab"), STOP, END]),
    "[DONE] among glued events": (sse(A).strip() + b"[DONE]" + json.dumps(B).encode() + b"\n\n", [Content("a"), STOP, END]),
    "one payload on several lines": (b"data: " + json.dumps(A, indent=1).replace("\n", "\ndata: ").encode() + b"\n\n" + DONE, [Content("a"), STOP, END]),
    "broken UTF-8": (sse(A).replace(b'"a"', b'"a\xff"') + DONE, [Content("a\ufffd"), STOP, END]),
    "half a marker at the end": (sse(choice({"content": "a<thi"})) + DONE, [Content("a<thi"), STOP, END]),
    "half a character at the end": (sse(choice({"content": "a\ud83d"}), FINISH), [Content("a\ufffd"), STOP, END]),
}  # fmt: skip

FAILURES = {
    # body: what came before, the kind of the error, words in it
    "nothing": (b"", [], "stream_truncated", "before any of it"),
    "blanks": (b"\n \n", [], "stream_truncated", "before any of it"),
    "half a byte order mark": (b"\xef\xbb", [], "stream_truncated", "before any of it"),
    "a byte order mark": (b"\xef\xbb\xbf", [], "stream_truncated", "before any of it"),
    "comments": (b": x\n\n", [], "stream_truncated", "before any of it"),
    "neither finish nor [DONE]": (sse(A), [Content("a")], "stream_truncated", "without a finish reason"),
    "[DONE] and nothing else": (DONE, [], "upstream_bad_response", "[DONE]"),
    "usage and nothing else": (sse({"choices": [], "usage": USAGE}) + DONE, [], "upstream_bad_response", "[DONE]"),
    "half an event": (sse(A, FINISH) + b'data: {"choices": [{', [Content("a")], "stream_truncated", "in the middle of it"),
    "HTML": (b"<!doctype html><title>Bad gateway</title>" + b"x" * 900, [], "upstream_bad_response", "Bad gateway"),
    "plain text": (b"upstream connect error", [], "upstream_bad_response", "upstream connect error"),
    "text that begins like a field": (b"dat", [], "upstream_bad_response", "dat"),
    "binary": (b"\x1f\x8b\x08", [], "upstream_bad_response", "neither a stream nor JSON"),
    "JSON of something else": (b'{"id": 1}', [], "upstream_bad_response", "neither choices nor an error"),
    "JSON with choices null": (b'{"choices": null}', [], "upstream_bad_response", "choices is null"),
    "broken JSON": (b'{"choices": [', [], "upstream_bad_response", "no JSON"),
    "an error as JSON": (b'{"error": {"message": "busy", "code": 503}}', [], "upstream_unavailable", "busy"),
    "an error as text": (sse({"error": "it broke"}), [], "upstream_failed", "it broke"),
    "an error as detail": (sse({"detail": "it broke"}), [], "upstream_failed", "it broke"),
    "an error as object": (sse({"object": "error", "message": "it broke", "code": 400}), [], "invalid_request", "it broke"),
    "an error event": (b'event: error\ndata: {"message": "it broke"}\n\n', [], "upstream_failed", "it broke"),
    "an error event in plain words": (b"event: error\ndata: it broke\n\n", [], "upstream_failed", "it broke"),
    "an error event of nothing": (b"event: error\ndata:\n\n", [], "upstream_failed", "without a word"),
    "an error midway": (sse(A, {"error": "it broke"}, B) + DONE, [Content("a")], "upstream_failed", "it broke"),
    "an error behind the finish": (sse(A, FINISH, {"error": "it broke"}), [Content("a")], "upstream_failed", "it broke"),
    "an error glued to text": (sse(A).strip() + json.dumps({"error": "it broke"}).encode() + b"{}\n\n", [Content("a")], "upstream_failed", "it broke"),
    "an event that is no JSON": (sse(A) + b"data: {ping\n\n", [Content("a")], "upstream_bad_response", "{ping"),
    "an event that is no chunk": (sse(A) + b"data: 7\n\n", [Content("a")], "upstream_bad_response", "int"),
    "choices null midway": (sse(A, {"choices": None}), [Content("a")], "upstream_bad_response", "choices is null"),
    "held text behind output is let go": (sse(choice({"content": "a<th"}), {"error": "x"}), [Content("a<th")], "upstream_failed", "x"),
    "held text alone is dropped": (sse(choice({"content": "<th"}), {"error": "x"}), [], "upstream_failed", "x"),
    "half a character behind output is let go": (sse(choice({"content": "a\ud83d"}), {"error": "x"}), [Content("a\ufffd")], "upstream_failed", "x"),
    "half a character alone is dropped": (sse(choice({"content": "\ud83d"})), [], "stream_truncated", "in the middle"),
    "half a character in an error": (b'event: error\ndata: {"message": "a\\ud83d"}\n\n', [], "upstream_failed", "a\ufffd"),
}  # fmt: skip

BROKEN = {
    "before anything": (b"", "before any of it"),
    "in the name of the first field": (b"dat", "broke the connection before any of it"),
    "midway": (sse(A), "in the middle of it, without a finish reason"),
    "behind the finish": (sse(A, FINISH), "in the middle of it and without [DONE]"),
    "in an event": (sse(A) + b'data: {"choices": [{', "in the middle of it, without a finish reason"),
    "in JSON": (json.dumps(MESSAGE).encode()[:-9], "broke the connection"),
}

LARGE = {
    "a line": (b"data: " + b"x" * 200, "max_event_bytes"),
    "an event": (b"data: " + b"x" * 200 + b"\n\n", "max_event_bytes"),
    "data lines of the last event": (b"data: 12345\n" * 17 + b"data: 12345", "max_event_bytes"),
    "JSON": (b"[" + b"x" * 200, "max_answer_bytes"),
    "arguments that wait": (
        b"".join(
            sse(choice({"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]})).replace(b" ", b"") for _ in range(101)
        ),
        "held_text_bytes",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_answers(body, expected):
    assert run(body) == expected


@pytest.mark.parametrize(("body", "before", "kind", "words"), FAILURES.values(), ids=FAILURES)
def test_failures(body, before, kind, words):
    *events, failed = run(body)
    assert events == before
    assert (failed.error.kind, words in failed.error.message) == (kind, True), failed.error


@pytest.mark.parametrize(("body", "words"), BROKEN.values(), ids=BROKEN)
def test_a_broken_connection_is_no_answer_before_done(body, words):
    failed = run(body, clean=False)[-1]
    assert (failed.error.kind, words in failed.error.message) == ("stream_truncated", True), failed.error


def test_a_connection_may_break_behind_done():
    assert run(sse(A) + DONE, clean=False)[-1] == END


@pytest.mark.parametrize(("body", "setting"), LARGE.values(), ids=LARGE)
def test_limits(body, setting):
    limits = Limits(event_bytes=100, answer_bytes=100, held_characters=200)
    failed = run(body, limits=limits)[-1]
    assert (failed.error.kind, setting in failed.error.message) == ("upstream_bad_response", True), failed.error
    failed = run(body)[-1]
    assert not isinstance(failed, Failed) or setting not in failed.error.message


def test_the_state_tells_whether_a_failure_can_still_be_an_http_error():
    normalizer = StreamNormalizer(a_request(), GENERIC)
    assert normalizer.state is State.WAITING
    normalizer.receive_data(sse(choice({"role": "assistant", "content": ""}), choice({"content": "<thi"})))
    assert normalizer.state is State.WAITING
    normalizer.receive_data(sse(choice({"content": "s"})))
    assert normalizer.state is State.ANSWERING
    normalizer.receive_data(DONE)
    assert normalizer.state is State.COMPLETE
    assert normalizer.error is None


def test_a_failure_from_outside():
    error = ProxyError("upstream_timeout", "x")
    waiting, answering, over = (StreamNormalizer(a_request(), GENERIC) for _ in range(3))
    waiting.receive_data(sse(choice({"content": "<th"})))
    assert waiting.fail(error)[-1:] == [Failed(error)]
    answering.receive_data(sse(choice({"content": "a<th"})))
    assert answering.fail(error) == [Content("<th"), Failed(error)]
    assert answering.error is error
    assert answering.receive_eof(True) == []
    over.receive_data(sse(A) + DONE)
    assert over.fail(error) == []
    assert over.receive_data(sse(B)) == []


def test_pieces_that_are_held_back_are_counted():
    """A server that is at work must not look idle because its words wait."""
    normalizer = StreamNormalizer(a_request(), GENERIC)
    call = {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}
    assert normalizer.receive_data(sse({"choices": []}, choice({"content": ""}))) == [
        Identified("chatcmpl-req-1", 7, "m")
    ]
    assert normalizer.pieces == 0
    assert normalizer.receive_data(sse(choice(call), choice({"content": "<th"}))) == []
    assert normalizer.pieces == 2


def test_what_repeats_is_learned_when_it_is_time_and_changes_nothing():
    texts = ["a", "b", "c", "d", "e"]
    reads = [sse(choice({"role": "assistant", "content": ""})), *(sse(choice({"content": text})) for text in texts)]

    def read(*, extras):
        normalizer = StreamNormalizer(a_request(), GENERIC, extras=extras)
        events, could = [], []
        for data in reads:
            events += normalizer.receive_data(data)
            could.append(normalizer.can_learn)
            normalizer.learn()
            assert not normalizer.can_learn
        return [event.text for event in events if isinstance(event, Content)], could

    assert read(extras=False) == (texts, [False, False, True, False, False, False]), "a stream of one text has no next"
    assert read(extras=True) == (texts, [False] * 6)


def test_extras_are_told_where_they_are_exposed():
    body = sse({**A, "timings": {"x": 1}}, FINISH) + b'data: {"citations": []}{"x": 1}\n\n' + DONE
    assert run(body) == [Content("a"), STOP, END]
    extras = [
        event
        for event in feed(StreamNormalizer(a_request(), GENERIC, extras=True), [body])
        if isinstance(event, ExtrasReported)
    ]
    assert extras == [
        ExtrasReported({"timings": {"x": 1}}),
        ExtrasReported({"citations": []}),
        ExtrasReported({"x": 1}),
    ]


WRITTEN = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'
CALLED = [ToolCallStarted(0, "call_req-10", "look"), ArgumentsDelta(0, "{}"), Finished("tool_calls"), END]
THOUGHT = "a</think>b"

STAGES = {
    # the profile's response, the request, content: events
    "reasoning the template opens": ({"reasoning": "think_tags_preopened"}, {}, [THOUGHT], [Reasoning("a"), Content("b"), STOP, END]),
    "it is text without that setting": ({}, {}, [THOUGHT], [Content(THOUGHT), STOP, END]),
    "cumulative content": ({"content": "cumulative"}, {}, ["a", "ab", "ab"], [Content("ab"), STOP, END]),
    "increments": ({}, {}, ["a", "ab", "ab"], [Content("aabab"), STOP, END]),
    "cumulative content with reasoning in it": (
        {"content": "cumulative"}, {}, ["<thi", "<think>a</think>b"], [Reasoning("a"), Content("b"), STOP, END],
    ),
    "a call written as text": ({}, {"tools": tools("look")}, [WRITTEN], [Noted("tool_calls=written_as_text"), *CALLED]),
    "where that is off": ({"text_calls": False}, {"tools": tools("look")}, [WRITTEN], [Content(WRITTEN), STOP, END]),
    "where there are no tools": ({}, {}, [WRITTEN], [Content(WRITTEN), STOP, END]),
    "where no tool may be called": ({}, {"tools": tools("look"), "tool_choice": "none"}, [WRITTEN], [Content(WRITTEN), STOP, END]),
    "where one must be called": ({}, {"tools": tools("look"), "tool_choice": "required"}, [WRITTEN], [Noted("tool_calls=written_as_text"), *CALLED]),
    "where one must be, and is not": ({}, {"tools": tools("look"), "tool_choice": "required"}, ["a"], [Content("a"), Noted("tool_choice.required=unmet"), STOP, END]),
    "where one must be, and there is none": ({}, {"tool_choice": "required"}, ["a"], [Content("a"), STOP, END]),
    "in reasoning": ({}, {"tools": tools("look")}, ["<think>", WRITTEN], [Reasoning(WRITTEN), STOP, END]),
}  # fmt: skip


@pytest.mark.parametrize(("facts", "fields", "texts", "expected"), STAGES.values(), ids=STAGES)
def test_stages_are_chosen_by_profile_and_request(facts, fields, texts, expected):
    body = sse(*(choice({"content": text}) for text in texts)) + DONE
    profile = load_profile("generic", {"response": facts})
    assert run(body, a_request(**fields), profile) == expected


@pytest.mark.parametrize("before", ["", "x" * 190])
@pytest.mark.parametrize(
    "body",
    [b"data: no JSON: %b\n\n", b'{"data": "%b"}', b'{"data": "%b', b"%b", b"<html>%b", b"event: error\ndata: %b\n\n"],
)
def test_a_key_in_what_cannot_be_read_stays_here(body, before):
    key = "local-secret-1"
    errors = ErrorReader(a_request(), (), (key,))
    events = feed(StreamNormalizer(a_request(), GENERIC, errors=lambda: errors), [body % f"{before}{key}".encode()])
    assert isinstance(events[-1], Failed)
    assert "local-s" not in events[-1].error.message
