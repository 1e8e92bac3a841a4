"""Events to the bytes of a stream."""

from __future__ import annotations

import json

import pytest

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
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
from svir_proxy.response.sse_writer import SSEWriter

HEAD = b'data: {"id":"chatcmpl-req-1","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":'
TAIL = b',"logprobs":null,"finish_reason":null}]}\n\n'
TOKEN = {"token": "a", "logprob": -0.5, "bytes": None, "top_logprobs": []}

EVENTS = {
    "content": (ContentDelta("a\nž"), HEAD + '{"content":"a\\nž"}'.encode() + TAIL),
    "reasoning": (ReasoningDelta("a"), HEAD + b'{"reasoning_content":"a"}' + TAIL),
    "a refusal": (RefusalDelta("a"), HEAD + b'{"refusal":"a"}' + TAIL),
    "a call": (
        ToolCallStarted(1, "a", "look"),
        HEAD
        + b'{"tool_calls":[{"index":1,"id":"a","type":"function","function":{"name":"look","arguments":""}}]}'
        + TAIL,
    ),
    "arguments": (
        ArgumentsDelta(1, '{"x"'),
        HEAD + b'{"tool_calls":[{"index":1,"function":{"arguments":"{\\"x\\""}}]}' + TAIL,
    ),
    "a finish": (Finished("stop"), HEAD + b'{},"logprobs":null,"finish_reason":"stop"}]}\n\n'),
    "the end": (Ended(), b"data: [DONE]\n\n"),
    "a failure": (
        Failed(ProxyError("stream_truncated", "x")),
        b'data: {"error":{"message":"x","type":"upstream_error","param":null,"code":"stream_truncated"}}\n\n',
    ),
    "half a character": (ContentDelta("\ud83d"), HEAD + '{"content":"\ufffd"}'.encode() + TAIL),
    "a note": (Noted("x"), b""),
    "an identity that comes late": (Identified("c", 5, "n"), b""),
    "usage nobody asked for": (UsageReported({"total_tokens": 1}), b""),
}


def a_request(**fields):
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True, **fields}
    return ClientRequest.from_body(body, id="req-1", received=7)


def opened(**fields):
    writer = SSEWriter(a_request(**fields))
    writer.open()
    return writer


def chunk(data):
    return json.loads(data.removeprefix(b"data: "))


@pytest.mark.parametrize(("event", "expected"), EVENTS.values(), ids=EVENTS)
def test_events(event, expected):
    assert opened().write(event) == expected


def test_the_first_chunk_has_the_role():
    writer = SSEWriter(a_request())
    assert not writer.is_open
    assert writer.open() == HEAD + b'{"role":"assistant","content":""}' + TAIL
    assert writer.is_open


@pytest.mark.parametrize(
    ("identity", "fields"),
    [
        (Identified("c", 5, "n"), {"id": "c", "created": 5, "model": "n"}),
        (
            Identified("c", 5, "n", "fp", "flex"),
            {"id": "c", "created": 5, "model": "n", "system_fingerprint": "fp", "service_tier": "flex"},
        ),
        (Identified("c\ud83d", 5, "n"), {"id": "c\ufffd", "created": 5, "model": "n"}),
    ],
)
def test_every_chunk_has_the_identity(identity, fields):
    writer = SSEWriter(a_request(stream_options={"include_usage": True}))
    assert writer.write(identity) == b""
    chunks = [writer.open(), *map(writer.write, (ContentDelta("a"), Finished("stop"), UsageReported({})))]
    for data in chunks:
        said = chunk(data)
        said.pop("choices")
        said.pop("usage", None)
        assert said == {"object": "chat.completion.chunk"} | fields


def test_usage_that_was_asked_for_has_no_choices():
    data = opened(stream_options={"include_usage": True}).write(UsageReported({"total_tokens": 1}))
    assert chunk(data)["choices"] == []
    assert chunk(data)["usage"] == {"total_tokens": 1}


def test_probabilities_go_with_the_next_chunk_once():
    writer = opened()
    assert writer.write(LogprobsReported([TOKEN], None)) == b""
    assert writer.write(LogprobsReported([TOKEN], [TOKEN])) == b""
    (choice,) = chunk(writer.write(ContentDelta("a")))["choices"]
    assert choice == {
        "index": 0,
        "delta": {"content": "a"},
        "logprobs": {"content": [TOKEN, TOKEN], "refusal": [TOKEN]},
        "finish_reason": None,
    }
    assert writer.write(ContentDelta("a")) == HEAD + b'{"content":"a"}' + TAIL


def test_extras_that_wait_are_bounded():
    writer = opened()
    for number in range(1000):
        assert writer.write(ExtrasReported({f"key-{number}": 1})) == b""
    assert len(json.loads(writer.write(ContentDelta("x"))[6:])["svir"]) == 100


def test_extras_go_with_the_next_chunk_once():
    writer = opened()
    assert writer.write(ExtrasReported({"a": 1})) == b""
    assert writer.write(ExtrasReported({"b": 2})) == b""
    assert chunk(writer.write(Finished("stop")))["svir"] == {"a": 1, "b": 2}
    assert writer.write(ContentDelta("a")) == HEAD + b'{"content":"a"}' + TAIL


def test_probabilities_without_text_are_not_kept_for_ever():
    writer = opened()
    for _ in range(5000):
        writer.write(LogprobsReported([TOKEN], None))
    (choice,) = chunk(writer.write(Finished("stop")))["choices"]
    assert len(choice["logprobs"]["content"]) == 2000
    writer.write(LogprobsReported([TOKEN], None))
    (choice,) = chunk(writer.write(Finished("stop")))["choices"]
    assert len(choice["logprobs"]["content"]) == 1
