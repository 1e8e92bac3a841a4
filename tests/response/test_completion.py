"""Events gathered to one ``chat.completion``."""

from __future__ import annotations

import pytest

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.response.completion import CompletionFolder
from svir_proxy.response.events import (
    ArgumentsDelta,
    ContentDelta,
    Ended,
    ExtrasReported,
    Failed,
    Finished,
    Identified,
    LogprobsReported,
    Noted,
    ReasoningDelta,
    RefusalDelta,
    ToolCallStarted,
    UsageReported,
)

TOKEN = {"token": "a", "logprob": -0.5, "bytes": None, "top_logprobs": []}
CALL = [ToolCallStarted(0, "a", "look"), ArgumentsDelta(0, '{"x"'), ArgumentsDelta(0, ": 1}")]
CALLED = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}}
OTHER = [ToolCallStarted(1, "b", "find")]

MESSAGES = {
    "text": ([ContentDelta("a"), ContentDelta("b")], {"content": "ab", "refusal": None}),
    "nothing": ([], {"content": "", "refusal": None}),
    "a call": (CALL, {"content": None, "refusal": None, "tool_calls": [CALLED]}),
    "text and calls": (
        [ContentDelta("a"), *CALL, *OTHER],
        {
            "content": "a",
            "refusal": None,
            "tool_calls": [CALLED, {"id": "b", "type": "function", "function": {"name": "find", "arguments": ""}}],
        },
    ),
    "a refusal": ([RefusalDelta("n"), RefusalDelta("o")], {"content": None, "refusal": "no"}),
    "reasoning": (
        [ReasoningDelta("a"), ReasoningDelta("b"), ContentDelta("c")],
        {"content": "c", "refusal": None, "reasoning_content": "ab"},
    ),
    "reasoning alone": ([ReasoningDelta("a")], {"content": "", "refusal": None, "reasoning_content": "a"}),
}

AROUND = {
    # event: what it adds
    "an identity": (Identified("c", 5, "n"), {"id": "c", "created": 5, "model": "n"}),
    "fingerprint and tier": (
        Identified("c", 5, "n", "fp", "flex"),
        {"id": "c", "created": 5, "model": "n", "system_fingerprint": "fp", "service_tier": "flex"},
    ),
    "usage": (UsageReported({"total_tokens": 1}), {"usage": {"total_tokens": 1}}),
    "extras": (ExtrasReported({"timings": {}}), {"svir": {"timings": {}}}),
    "a note is not of the answer": (Noted("x"), {}),
    "nor is the end": (Ended(), {}),
}


def a_request(model="m"):
    return ClientRequest.from_body(
        {"model": model, "messages": [{"role": "user", "content": "Hi"}]}, id="req-1", received=7
    )


def fold(events, request=None):
    folder = CompletionFolder(request or a_request())
    for event in events:
        folder.feed(event)
    return folder


@pytest.mark.parametrize(("events", "message"), MESSAGES.values(), ids=MESSAGES)
def test_messages(events, message):
    (choice,) = fold([*events, Finished("length")]).completion()["choices"]
    assert choice == {
        "index": 0,
        "message": {"role": "assistant", **message},
        "logprobs": None,
        "finish_reason": "length",
    }


@pytest.mark.parametrize(("event", "added"), AROUND.values(), ids=AROUND)
def test_what_stands_around_the_message(event, added):
    answer = fold([event]).completion()
    del answer["choices"]
    assert answer == {"id": "chatcmpl-req-1", "object": "chat.completion", "created": 7, "model": "m"} | added


def test_a_model_nobody_named():
    assert fold([], a_request(model=None)).completion()["model"] == "unknown"


def test_probabilities_and_extras_of_all_chunks_are_gathered():
    answer = fold(
        [
            LogprobsReported([TOKEN], None),
            ExtrasReported({"a": 1}),
            LogprobsReported([TOKEN], [TOKEN]),
            ExtrasReported({"b": 2}),
        ]
    ).completion()
    assert answer["choices"][0]["logprobs"] == {"content": [TOKEN, TOKEN], "refusal": [TOKEN]}
    assert answer["svir"] == {"a": 1, "b": 2}


def test_a_failure_is_kept():
    error = ProxyError("upstream_failed", "x")
    assert fold([ContentDelta("a"), Failed(error)]).error is error
    assert fold([ContentDelta("a")]).error is None
