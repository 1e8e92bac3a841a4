"""One chunk, or one whole answer, to events: every server's way of saying the same thing."""

from __future__ import annotations

import json

import pytest

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.response.chunk_reader import ChunkReader
from svir_proxy.response.events import ContentDelta as Content
from svir_proxy.response.events import FilterVerdict, Finished, Identified, LogprobsReported, UsageReported
from svir_proxy.response.events import ReasoningDelta as Reasoning
from svir_proxy.response.events import RefusalDelta as Refusal
from svir_proxy.response.events import ToolCallPiece as Piece
from svir_proxy.response.upstream_error import ErrorReader

USAGE = {"prompt_tokens": 3, "completion_tokens": 2}
REPORTED = UsageReported({**USAGE, "total_tokens": 5})
TOKEN = {"token": "a", "logprob": -0.5, "bytes": None, "top_logprobs": []}
LOGPROBS = LogprobsReported([TOKEN], None)
FILTERED = {"hate": {"filtered": False}, "custom_blocklists": [{"filtered": True, "id": "x"}]}
DETECTED = {"jailbreak": {"detected": True, "filtered": False}}


def a_request(model="m"):
    return ClientRequest.from_body(
        {"model": model, "messages": [{"role": "user", "content": "Hi"}]}, id="req-1", received=7
    )


def read(*chunks, name=b"", request=None):
    """The events of *chunks* without the identity."""
    request = request or a_request()
    events = []
    reader = ChunkReader(request, lambda: ErrorReader(request, []), events.append)
    for chunk in chunks:
        reader.read(chunk, name)
    reader.finish()
    return [event for event in events if not isinstance(event, Identified)]


def choice(delta=None, **fields):
    return {"choices": [{"index": 0, "delta": delta, **fields}]}


DELTAS = {
    "the first one": ({"role": "assistant", "content": ""}, []),
    "everything null (mlx-vlm)": (
        dict.fromkeys(
            ("role", "content", "reasoning", "refusal", "tool_calls", "function_call", "tool_call_id", "name")
        ),
        [],
    ),
    "content": ({"content": "a"}, [Content("a")]),
    "a refusal": ({"content": None, "refusal": "no"}, [Refusal("no")]),
    # reasoning
    "reasoning_content (LM Studio, llama.cpp)": ({"reasoning_content": "a"}, [Reasoning("a")]),
    "reasoning (vLLM, mlx-lm, Ollama)": ({"reasoning": "a"}, [Reasoning("a")]),
    "both with one text (mlx-vlm)": ({"reasoning_content": "a", "reasoning": "a"}, [Reasoning("a")]),
    "one of both empty": ({"reasoning_content": "", "reasoning": "a"}, [Reasoning("a")]),
    "thinking": ({"thinking": "a"}, [Reasoning("a")]),
    "reasoning_details (OpenRouter)": (
        {"reasoning_details": [{"type": "reasoning.text", "text": "a"}, {"type": "reasoning.summary", "summary": "b"}]},
        [Reasoning("ab")],
    ),
    "details beside a text": ({"reasoning": "a", "reasoning_details": [{"text": "a"}]}, [Reasoning("a")]),
    "encrypted details": ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "xyz"}]}, []),
    "an object (Envoy)": ({"reasoning_content": {"text": "a", "signature": "x"}}, [Reasoning("a")]),
    "no text in it": ({"reasoning": {"effort": "low"}, "thinking": 1, "reasoning_content": [None]}, []),
    "reasoning comes before the content beside it": (
        {"content": "b", "reasoning": "a"},
        [Reasoning("a"), Content("b")],
    ),
    # parts
    "typed parts (Mistral)": (
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}, {"type": "text", "text": "b"}]},
        [Reasoning("a"), Content("b")],
    ),
    "summaries (Databricks)": (
        {"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]}]},
        [Reasoning("a")],
    ),
    "a part alone": ({"content": {"type": "text", "text": "a"}}, [Content("a")]),
    "strings among the parts": ({"content": ["a", None, {"text": "b"}]}, [Content("ab")]),
    "a refusal part": ({"content": [{"type": "refusal", "refusal": "no"}]}, [Refusal("no")]),
    "a part of no type anybody knows": ({"content": [{"type": ["x"], "text": "a"}, {"type": {}}]}, [Content("a")]),
    "parts nested too deeply": ({"content": json.loads('[{"text":' * 12 + '"a"' + "}]" * 12)}, []),
    # calls
    "a call": (
        {"tool_calls": [{"index": 1, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}}]},
        [Piece(1, "a", "f", "{")],
    ),
    "several pieces": (
        {"tool_calls": [{"index": 0, "function": {"arguments": "1"}}, {"index": 1, "function": {"arguments": "2"}}]},
        [Piece(0, "", "", "1"), Piece(1, "", "", "2")],
    ),
    "without index, type and id": ({"tool_calls": [{"function": {"name": "f"}}]}, [Piece(None, "", "f", "")]),
    "everything null in a call": (
        {"tool_calls": [{"index": None, "id": None, "function": {"name": None, "arguments": None}}]},
        [Piece(None, "", "", "")],
    ),
    "a flat call": ({"tool_calls": [{"name": "f", "arguments": "{}"}]}, [Piece(None, "", "f", "{}")]),
    "an index that is none": ({"tool_calls": [{"index": True, "function": {"name": "f"}}]}, [Piece(None, "", "f", "")]),
    "an id as a number": ({"tool_calls": [{"id": 7, "function": {"name": "f"}}]}, [Piece(None, "7", "f", "")]),
    "half a character in an id": ({"tool_calls": [{"id": "\ud83d", "function": {}}]}, [Piece(None, "\ufffd", "", "")]),
    "a name that is none": ({"tool_calls": [{"function": {"name": 7, "arguments": ""}}]}, [Piece(None, "", "", "")]),
    "arguments as an object": (
        {"tool_calls": [{"function": {"name": "f", "arguments": {"x": [1]}}}]},
        [Piece(None, "", "f", '{"x":[1]}', whole=True)],
    ),
    "an empty object": (
        {"tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
        [Piece(None, "", "f", "{}", whole=True)],
    ),
    "function_call": ({"function_call": {"name": "f", "arguments": "{"}}, [Piece(0, "", "f", "{")]),
    "function_call beside the same as tool_calls": (
        {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}], "function_call": {"arguments": "{"}},
        [Piece(0, "", "", "{")],
    ),
    "function_call of nothing": ({"function_call": {"name": None, "arguments": ""}, "tool_calls": []}, []),
}

CHOICES = {
    "no delta": (choice(None), []),
    "a delta that is none": (choice("x"), []),
    "a message in place of a delta": ({"choices": [{"message": {"content": "a"}}]}, [Content("a")]),
    "a message beside the delta (Foundry Local)": (choice({"content": "a"}, message={"content": "ab"}), [Content("a")]),
    "a text": ({"choices": [{"text": "a"}]}, [Content("a")]),
    "calls of a whole message": (
        {
            "choices": [
                {
                    "message": {
                        "tool_calls": [
                            {"id": "a", "function": {"name": "f", "arguments": "{}"}},
                            {"id": "b", "function": {"name": "f", "arguments": ""}},
                        ]
                    }
                }
            ]
        },
        [Piece(0, "a", "f", "{}", whole=True), Piece(1, "b", "f", "", whole=True)],
    ),
    "a finish beside text": (choice({"content": "a"}, finish_reason="stop"), [Content("a"), Finished("stop")]),
    "an empty finish": (choice({}, finish_reason=""), []),
    "a finish that is no word": (choice({}, finish_reason={"type": "stop"}), []),
    "probabilities come before their text": (
        choice({"content": "a"}, logprobs={"content": [TOKEN]}),
        [LOGPROBS, Content("a")],
    ),
    "no probabilities": (choice({}, logprobs={"content": None}), []),
    "usage in the choice": (choice({}, usage=USAGE), [REPORTED]),
    "no usage in the choice": (choice({}, usage={"x": 1}), []),
    "a verdict": (choice({}, content_filter_results=FILTERED), [FilterVerdict()]),
    "a verdict without delta (Azure, asynchronous)": (
        {"choices": [{"index": 0, "content_filter_offsets": {}, "content_filter_results": FILTERED}]},
        [FilterVerdict()],
    ),
    "only detected": (choice({}, content_filter_results=DETECTED), []),
    "verdicts nested too deeply": (choice({}, content_filter_results=json.loads('{"a":' * 12 + str(FILTERED["hate"]).lower().replace("'", '"') + "}" * 12)), []),
    "another choice": ({"choices": [{"index": 1, "delta": {"content": "a"}}]}, []),
    "choices missing or empty": ({"id": "a"}, []),
    "usage without choices": ({"choices": [], "usage": USAGE}, [REPORTED]),
    "usage without the key choices": ({"usage": USAGE}, [REPORTED]),
    "usage null on the way": ({**choice({"content": "a"}), "usage": None}, [Content("a")]),
    "usage under x_groq": ({**choice({}), "x_groq": {"id": "x", "usage": USAGE}}, [REPORTED]),
    "usage in both places": ({**choice({}), "usage": USAGE, "x_groq": {"usage": USAGE}}, [REPORTED]),
    "x_groq without": ({**choice({}), "x_groq": "x"}, []),
    "the prompt blocked": ({"choices": [], "prompt_filter_results": [{"content_filter_results": FILTERED}]}, [FilterVerdict()]),
    "the prompt blocked, in an earlier version's words": ({"choices": [], "prompt_annotations": [FILTERED]}, [FilterVerdict()]),
    "the prompt passed": ({"choices": [], "prompt_filter_results": [{"content_filter_results": DETECTED}]}, []),
    "null": (None, []),
    "error null": ({**choice({"content": "a"}), "error": None}, [Content("a")]),
}  # fmt: skip

IDENTITIES = {
    # chunk: id, created, model, fingerprint, tier
    "OpenAI": (
        {"id": "c", "created": 5, "model": "n", "system_fingerprint": "fp", "service_tier": "flex"},
        ("c", 5, "n", "fp", "flex"),
    ),
    "nothing": ({}, ("chatcmpl-req-1", 7, "m", None, None)),
    "empty": ({"id": "", "created": 0, "model": "", "system_fingerprint": ""}, ("chatcmpl-req-1", 7, "m", None, None)),
    "null": (dict.fromkeys(("id", "created", "model", "service_tier")), ("chatcmpl-req-1", 7, "m", None, None)),
    "other types": (
        {"id": 1, "created": [], "model": {}, "system_fingerprint": 1, "service_tier": []},
        ("chatcmpl-req-1", 7, "m", None, None),
    ),
    "created as text": ({"id": "c", "created": "5"}, ("c", 5, "m", None, None)),
    "created with a fraction": ({"id": "c", "created": 5.7}, ("c", 5, "m", None, None)),
    "created as a date": ({"id": "c", "created": "2026-10-21"}, ("c", 7, "m", None, None)),
    "created out of all bounds": ({"id": "c", "created": 1e300}, ("c", 7, "m", None, None)),
    "a tier nobody knows": ({"id": "c", "service_tier": "on_demand"}, ("c", 7, "m", None, None)),
    "too long to be repeated in every chunk": (
        {"id": "c" * 513, "model": "n" * 513, "system_fingerprint": "f" * 513},
        ("chatcmpl-req-1", 7, "m", None, None),
    ),
}

FAILURES = {
    # chunk, event name: the kind of the error, words in it
    "an error beside nothing": ({"error": {"message": "it broke"}}, b"", "upstream_failed", "it broke"),
    "an error beside choices": ({**choice({}), "error": {"message": "it broke"}}, b"", "upstream_failed", "it broke"),
    "an error in the choice (OpenRouter)": (
        choice({"content": "a"}, error={"code": 503, "message": "busy"}, finish_reason="error"),
        b"",
        "upstream_unavailable",
        "busy",
    ),
    "a list (Gemini)": ([{"error": {"code": 429, "message": "slow down"}}], b"", "rate_limit_exceeded", "slow down"),
    "an event by its name": ({"what": "ever"}, b"error", "upstream_failed", "without a word"),
    "a finish that is a failure": (choice({}, finish_reason="NETWORK_ERROR"), b"", "upstream_failed", "NETWORK_ERROR"),
    "its account in a message never streamed (MLX Studio)": (
        {"choices": [{"message": {"content": "the loader broke"}, "finish_reason": "error"}]},
        b"",
        "upstream_failed",
        "the loader broke",
    ),
    "no account of it": ({"choices": [{"finish_reason": "abort"}]}, b"", "upstream_failed", "'abort'"),
}

UNREADABLE = {
    "choices null": {"choices": None},
    "choices no list": {"choices": {"index": 0}},
    "a choice no object": {"choices": ["a"]},
    "a message no object": {"choices": [{"message": "a"}]},
    "tool_calls no list": choice({"tool_calls": {"index": 0}}),
    "a call no object": choice({"tool_calls": ["a"]}),
    "content a number": choice({"content": 7}),
    "a part a number": choice({"content": [7]}),
    "a number": 7,
    "a text": "a",
    "a list": [],
    "a list of something": [choice({})],
}

HALVES = {
    # pieces of text: what they are together
    "a pair": (["a\ud83c", "\udf0ab"], "a🌊b"),
    "something between": (["\ud83c", "a"], "\ufffda"),
    "an empty piece between": (["\ud83c", "", "\udf0a"], "🌊"),
    "the second half alone": (["a", "\udf0ab"], "a\ufffdb"),
    "the first half at the end": (["a", "b\ud83c"], "ab\ufffd"),
    "two first halves": (["\ud83c", "\ud83c\udf0a"], "\ufffd🌊"),
    "other text above ASCII": (["ž", "🌊"], "ž🌊"),
}


@pytest.mark.parametrize(("delta", "expected"), DELTAS.values(), ids=DELTAS)
def test_deltas(delta, expected):
    assert read(choice(delta)) == expected


@pytest.mark.parametrize(("chunk", "expected"), CHOICES.values(), ids=CHOICES)
def test_chunks(chunk, expected):
    assert read(chunk) == expected


@pytest.mark.parametrize(("chunk", "expected"), IDENTITIES.values(), ids=IDENTITIES)
def test_the_identity_is_that_of_the_first_chunk_with_a_choice(chunk, expected):
    events, request = [], a_request()
    reader = ChunkReader(request, lambda: ErrorReader(request, []), events.append)
    reader.read({"choices": [], "id": "the prompt's verdict", "model": "x"})
    assert not reader.answered
    reader.read(choice({}) | chunk)
    reader.read(choice({}) | {"id": "d", "model": "another"})
    assert reader.answered
    assert events == [Identified(*expected)]


def test_a_model_nobody_named():
    events, request = [], a_request(model=None)
    ChunkReader(request, lambda: ErrorReader(request, []), events.append).read(choice({}))
    assert events == [Identified("chatcmpl-req-1", 7, "unknown")]


@pytest.mark.parametrize(("chunk", "name", "kind", "words"), FAILURES.values(), ids=FAILURES)
def test_failures(chunk, name, kind, words):
    with pytest.raises(ProxyError) as failure:
        read(chunk, name=name)
    assert (failure.value.kind, words in failure.value.message) == (kind, True), failure.value


@pytest.mark.parametrize("chunk", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read(chunk):
    with pytest.raises(ProxyError, match="is not a chat completion: "):
        read(chunk)


def test_arguments_nested_too_deeply():
    arguments = []
    for _ in range(100_000):
        arguments = [arguments]
    with pytest.raises(ProxyError, match="deep"):
        read(choice({"tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}))


@pytest.mark.parametrize(("pieces", "expected"), HALVES.values(), ids=HALVES)
@pytest.mark.parametrize(("key", "kind"), [("content", Content), ("reasoning", Reasoning), ("refusal", Refusal)])
def test_halves_of_characters(pieces, expected, key, kind):
    events = read(*(choice({key: piece}) for piece in pieces))
    assert {type(event) for event in events} == {kind}
    assert "".join(event.text for event in events) == expected


@pytest.mark.parametrize(("pieces", "expected"), HALVES.values(), ids=HALVES)
@pytest.mark.parametrize("index", [None, 3])
def test_halves_of_characters_in_arguments(pieces, expected, index):
    events = read(*(choice({"tool_calls": [{"index": index, "function": {"arguments": p}}]}) for p in pieces))
    assert {event.index for event in events} == {index}
    assert "".join(event.arguments for event in events) == expected


def test_halves_of_different_texts_do_not_meet():
    events = read(choice({"content": "\ud83c"}), choice({"reasoning": "\udf0a"}), choice({"content": "\udf0a"}))
    assert events == [Reasoning("\ufffd"), Content("🌊")]
