"""Streams in the shapes that servers give them, for the microbenchmarks of the core."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

_ID: Final = "chatcmpl-8f14e45fceea167a5a36dedd4bea2543"
_WORDS: Final = (" the", " quick", "\n\n", ' "x"', " brown", " café", ".", " jumps", " 😀", " over")
_ANGLES: Final = (" a < b", " <div", ">", " x<y", " </p", " if i <", " 3", " <= 4", " <", "b>")
_SCRAPS: Final = ('{"pa', 'th": "', "src/", "main", ".py", '", "li', 'ne": ', "12", ', "ok"', ": true}")
_TOOL: Final = {"type": "function", "function": {"name": "edit", "parameters": {"type": "object", "properties": {}}}}


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of stream.

    Attributes:
        what: In words.
        stream: The events of a stream of so many pieces, and the text that a client must get from it.
        profile: The server it comes from.
        request: What the client's request has beside its messages.
        cut: How the events arrive: one list of reads.
    """

    what: str
    stream: Callable[[int], tuple[list[bytes], str]]
    profile: str = "vllm"
    request: dict[str, Any] = field(default_factory=dict)
    cut: Callable[[list[bytes]], list[bytes]] = list


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(chunk, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def _plain(delta: dict[str, Any], reason: str | None = None) -> bytes:
    """OpenAI's chunk, without what only OpenAI sends."""
    return _event({
        "id": _ID, "object": "chat.completion.chunk", "created": 1700000002, "model": "model-27b-instruct",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
    })  # fmt: skip


def _vllm(delta: dict[str, Any], reason: str | None = None) -> bytes:
    return _event({
        "id": _ID, "object": "chat.completion.chunk", "created": 1700000002, "model": "model-27b-instruct",
        "choices": [
            {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason, "token_ids": None},
        ],
    })  # fmt: skip


def _vllm_long(delta: dict[str, Any], reason: str | None = None) -> bytes:
    """As vLLM writes with its defaults spelled out and usage in every chunk."""
    return _event({
        "id": _ID, "object": "chat.completion.chunk", "created": 1700000002, "model": "org/model-27b-instruct",
        "choices": [{
            "index": 0, "delta": {"role": None, "content": None, "reasoning": None, "tool_calls": [], **delta},
            "logprobs": None, "finish_reason": reason, "stop_reason": None, "token_ids": None,
        }],
        "system_fingerprint": None, "service_tier": None, "prompt_token_ids": None, "kv_transfer_params": None,
        "usage": {"prompt_tokens": 812, "total_tokens": 900, "completion_tokens": 88, "prompt_tokens_details": None},
    })  # fmt: skip


def _llama_cpp(delta: dict[str, Any], reason: str | None = None) -> bytes:
    return _event({
        "choices": [{"finish_reason": reason, "index": 0, "delta": delta}], "created": 1700000003, "id": _ID,
        "model": "model", "system_fingerprint": "b11429-0123abcd", "object": "chat.completion.chunk",
    })  # fmt: skip


def _azure(delta: dict[str, Any], reason: str | None = None) -> bytes:
    kinds = ("hate", "self_harm", "sexual", "violence")
    return _event({
        "choices": [{
            "content_filter_results": {kind: {"filtered": False, "severity": "safe"} for kind in kinds},
            "delta": delta, "finish_reason": reason, "index": 0, "logprobs": None,
        }],
        "created": 1700000003, "id": _ID, "model": "gpt-x", "obfuscation": "aZ3kQ9", "object": "chat.completion.chunk",
        "service_tier": "default", "system_fingerprint": None, "usage": None,
    })  # fmt: skip


_Chunk = Callable[..., bytes]


def _text(chunk: _Chunk, key: str = "content", words: tuple[str, ...] = _WORDS) -> Any:
    """Streams whose pieces stand under *key*."""

    def stream(count: int) -> tuple[list[bytes], str]:
        pieces = [words[i % len(words)] for i in range(count)]
        events = [chunk({"role": "assistant", "content": ""}), *(chunk({key: piece}) for piece in pieces)]
        return [*events, chunk({}, "stop"), b"data: [DONE]\n\n"], "".join(pieces)

    return stream


def _think_tags(count: int) -> tuple[list[bytes], str]:
    """Reasoning marked inside of the text, in every tenth piece a new block of it."""
    events, said = [_plain({"role": "assistant", "content": ""})], ""
    for i in range(count):
        word = f"w{i}"
        said += word
        opening, closing = "<think>" * (i % 10 == 0), "</think>" * (i % 10 == 9)
        events.append(_plain({"content": opening + word + closing}))
    return [*events, _plain({}, "stop"), b"data: [DONE]\n\n"], said


def _arguments(count: int) -> tuple[list[bytes], str]:
    """One call whose arguments come in pieces: a list of objects."""
    pieces = ["[", *(("," if i and not i % 10 else "") + _SCRAPS[i % 10] for i in range(count // 10 * 10)), "]"]
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "edit", "arguments": ""}}
    events = [_vllm({"role": "assistant", "content": ""}), _vllm({"tool_calls": [call]})]
    events += [_vllm({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in pieces]
    return [*events, _vllm({}, "tool_calls"), b"data: [DONE]\n\n"], "".join(pieces)


def _logprobs(count: int) -> tuple[list[bytes], str]:
    events, said = _text(_plain)(count)
    token = {"token": " the", "logprob": -0.5, "bytes": [32, 116, 104, 101], "top_logprobs": []}
    entry = json.dumps({"content": [token], "refusal": None}, separators=(",", ":"))
    marked = [
        event.replace(b'"finish_reason":null', f'"logprobs":{entry},"finish_reason":null'.encode())
        for event in events[1:]
    ]
    return [events[0], *marked], said


def _eight(events: list[bytes]) -> list[bytes]:
    return [b"".join(events[i : i + 8]) for i in range(0, len(events), 8)]


def _bytewise(events: list[bytes]) -> list[bytes]:
    return [bytes([byte]) for event in events for byte in event]


def _crlf(events: list[bytes]) -> list[bytes]:
    return [event.replace(b"\n", b"\r\n") for event in events]


_OFFERED: Final = {"tools": [_TOOL]}

SHAPES: Final = {
    "content": Shape("OpenAI's chunk", _text(_plain), "openai"),
    "reasoning": Shape("vLLM's chunk, text under `reasoning`", _text(_vllm, "reasoning")),
    "vllm-long": Shape("vLLM's chunk with every key and usage", _text(_vllm_long)),
    "llama.cpp": Shape("llama.cpp's order of keys", _text(_llama_cpp), "llama-cpp"),
    "azure": Shape("Azure's chunk with its verdicts", _text(_azure), "azure"),
    "arguments": Shape("arguments of a tool call", _arguments, request=_OFFERED),
    "think-tags": Shape("a <think> or </think> in each fifth piece", _think_tags, "generic"),
    "angles": Shape("text full of <", _text(_plain, words=_ANGLES), "generic"),
    "angles-tools": Shape("the same where tools are offered", _text(_plain, words=_ANGLES), "generic", _OFFERED),
    "tools": Shape("plain text where tools are offered", _text(_plain), "generic", _OFFERED),
    "logprobs": Shape("a probability with each piece", _logprobs, "openai", {"logprobs": True}),
    "8-a-read": Shape("vLLM's chunk, eight in each read", _text(_vllm), cut=_eight),
    "crlf": Shape("lines that end with CRLF", _text(_plain), "generic", cut=_crlf),
    "byte-wise": Shape("vLLM's chunk, a byte in each read", _text(_vllm), cut=_bytewise),
}

WHOLE_ANSWER: Final = json.dumps({
    "id": _ID, "object": "chat.completion", "created": 1700000002, "model": "model-27b-instruct",
    "choices": [{
        "index": 0, "logprobs": None, "finish_reason": "stop", "stop_reason": None, "token_ids": None,
        "message": {
            "role": "assistant", "reasoning": "The user greets.", "content": "Hello! How can I help you today?",
            "refusal": None, "annotations": None, "audio": None, "function_call": None, "tool_calls": [],
        },
    }],
    "usage": {"prompt_tokens": 12, "total_tokens": 21, "completion_tokens": 9, "prompt_tokens_details": None},
    "service_tier": None, "system_fingerprint": None, "prompt_logprobs": None, "prompt_token_ids": None,
}, separators=(",", ":")).encode()  # fmt: skip
"""vLLM's plain answer."""
