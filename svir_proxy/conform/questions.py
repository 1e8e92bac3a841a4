"""What a server is asked, in order. Short questions that any model can answer, and requests that no server should take.

A question that follows from an earlier answer, or needs what is not known of the server, says why it cannot be asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from svir_proxy.conform.exchange import Request
from svir_proxy.conform.interview import Interview

CHAT: Final = "/v1/chat/completions"
MODELS: Final = "/v1/models"
NO_MODEL: Final = "svir-conform-no-such-model"
LIMIT: Final = 6
"""Tokens that no answer to the question of length ends within."""

PIXEL: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def _tool(name: str, **properties: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"type": "function", "function": {"name": name, "parameters": {**schema, "required": [*properties]}}}


TOOLS: Final[list[dict[str, Any]]] = [
    _tool("open_locker", id="integer"),
    _tool("get_weather", city="string", days="integer"),
]
NAMED: Final = "get_weather"
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
HISTORY_ID: Final = "call_conform_1"
_HISTORY: Final[list[dict[str, Any]]] = [
    {"role": "user", "content": "Open locker 3."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": HISTORY_ID, "type": "function", "function": {"name": "open_locker", "arguments": '{"id": 3}'}}
        ],
    },
    {"role": "tool", "tool_call_id": HISTORY_ID, "content": "Locker 3 is open."},
]

Make = Callable[[Interview], "Request | str"]


@dataclass(frozen=True, slots=True)
class Question:
    """A question: its *name*, and what *make* makes of the interview, a request or the reason why there is none."""

    name: str
    make: Make


def _chat(prompt: str = "text", /, path: str = CHAT, **fields: Any) -> Make:
    """A chat request with the prompt for a purpose."""

    def make(interview: Interview) -> Request:
        body = {"model": interview.model, "messages": [{"role": "user", "content": interview.prompts[prompt]}]}
        return Request(path, {**body, "temperature": 0, "max_tokens": interview.max_tokens, **fields})

    return make


def _said(interview: Interview, *messages: dict[str, Any], **fields: Any) -> Request:
    """A chat request with its own messages."""
    body = {"model": interview.model, "messages": [*messages], "max_tokens": interview.max_tokens}
    return Request(CHAT, {**body, "temperature": 0, **fields})


def _of(request: Request) -> Make:
    return lambda _: request


def _streamed(make: Make) -> Make:
    def streamed(interview: Interview) -> Request | str:
        request = make(interview)
        return request if isinstance(request, str) else Request(request.path, {**request.body, "stream": True})

    return streamed


def _both_ways(name: str, make: Make) -> tuple[Question, Question]:
    return Question(name, make), Question(f"{name}, streamed", _streamed(make))


def _nulls(interview: Interview) -> Request:
    """Null where clients that fill in every field have nothing to say."""
    names = ("max_tokens", "stop", "tools", "tool_choice", "response_format", "seed", "user", "logit_bias")
    message = {"role": "user", "content": interview.prompts["text"]}
    body = {"model": interview.model, "messages": [message], "max_completion_tokens": interview.max_tokens}
    return Request(CHAT, {**body, **dict.fromkeys(names)})


def _parts(interview: Interview) -> Request:
    part = {"type": "text", "text": interview.prompts["text"]}
    body = {"model": interview.model, "messages": [{"role": "user", "content": [part]}]}
    return Request(CHAT, {**body, "max_tokens": interview.max_tokens})


def _image(interview: Interview) -> Request:
    parts = [{"type": "image_url", "image_url": {"url": PIXEL}}, {"type": "text", "text": "Which color is this?"}]
    body = {"model": interview.model, "messages": [{"role": "user", "content": parts}]}
    return Request(CHAT, {**body, "max_tokens": LIMIT})


def _stop(interview: Interview) -> Request | str:
    """The same question again, to stop at a word of the answer to it."""
    plain = interview.readings.get("plain")
    words = plain.said["content"].split() if plain is not None and plain.answered and not plain.was_cut else []
    if len(words) < 3:
        return "there was no whole answer of some words before, to stop at one of them"
    return _chat(stop=[words[len(words) // 2]])(interview)


def _overflow(interview: Interview) -> Request | str:
    if interview.context is None:
        return "how much the model's context holds is not known; tell it with --context"
    body = {"model": interview.model, "messages": [{"role": "user", "content": "word " * (interview.context * 5 // 4)}]}
    return Request(CHAT, {**body, "max_tokens": LIMIT})


def _wrong_key(interview: Interview) -> Request | str:
    if not interview.keyed:
        return "the server was asked without a key"
    return Request(MODELS, key="wrong")


def _leave(interview: Interview) -> Request | str:
    request = _streamed(_chat("length", max_tokens=2000))(interview)
    return request if isinstance(request, str) else Request(request.path, request.body, leave=b'"content":')


def _new_limit(interview: Interview) -> Request:
    message = {"role": "user", "content": interview.prompts["length"]}
    body = {"model": interview.model, "messages": [message], "max_completion_tokens": LIMIT}
    return Request(CHAT, {**body, "stream": True, "stream_options": {"include_usage": True}})


def _developer(interview: Interview) -> Request:
    user = {"role": "user", "content": interview.prompts["text"]}
    return _said(interview, {"role": "developer", "content": "Be brief."}, user)


def _history(interview: Interview) -> Request:
    return _said(interview, *_HISTORY, tools=TOOLS)


def _another_call(interview: Interview) -> Request:
    opened = {"role": "assistant", "content": "It is open."}
    user = {"role": "user", "content": interview.prompts["tools"]}
    return _said(interview, *_HISTORY, opened, user, tools=TOOLS, tool_choice="required")


def _unknown_model(interview: Interview) -> Request:
    user = {"role": "user", "content": interview.prompts["text"]}
    return Request(CHAT, {"model": NO_MODEL, "messages": [user], "max_tokens": LIMIT})


def _json(kind: str, **more: Any) -> Make:
    return _chat("json", response_format={"type": kind, **more})


_TRIP: Final[dict[str, Any]] = {"name": "trip", "strict": True, "schema": SCHEMA}
_NAMED: Final[dict[str, Any]] = {"type": "function", "function": {"name": NAMED}}
_OPTIONAL: Final[dict[str, Any]] = {
    "top_p": 1, "seed": 1, "presence_penalty": 0, "frequency_penalty": 0, "n": 1, "user": "conform",
    "parallel_tool_calls": True, "tools": TOOLS,
}  # fmt: skip

QUESTIONS: Final = (
    Question("models", _of(Request(MODELS))),
    Question("model", lambda interview: Request(f"{MODELS}/{quote(interview.model)}")),
    Question("model of no name", _of(Request(f"{MODELS}/{NO_MODEL}"))),
    Question("models without v1", _of(Request("/models"))),
    Question("plain", _chat()),
    Question("plain without v1", _chat(path="/chat/completions")),
    Question("stream", _streamed(_chat())),
    Question("stream with usage", _streamed(_chat(stream_options={"include_usage": True}))),
    Question("max_tokens", _chat("length", max_tokens=LIMIT)),
    Question("max_completion_tokens", _new_limit),
    Question("stop", _stop),
    Question("stop, streamed", _streamed(_stop)),
    Question("optional fields", _chat(**_OPTIONAL)),
    Question("null fields", _nulls),
    Question("developer", _developer),
    Question("content parts", _parts),
    Question("two choices", _chat(n=2)),
    *_both_ways("something to think about", _chat("think")),
    *_both_ways("tools", _chat("tools", tools=TOOLS)),
    *_both_ways("two calls", _chat("calls", tools=TOOLS)),
    *_both_ways("tool_choice none", _chat("tools", tools=TOOLS, tool_choice="none")),
    *_both_ways("tool_choice required", _chat("tools", tools=TOOLS, tool_choice="required")),
    *_both_ways("tool_choice named", _chat("calls", tools=TOOLS, tool_choice=_NAMED)),
    Question("history of a call", _history),
    Question("another call", _another_call),
    *_both_ways("json_object", _json("json_object")),
    *_both_ways("json_schema", _json("json_schema", json_schema=_TRIP)),
    Question("unknown model", _unknown_model),
    Question("broken JSON", _of(Request(CHAT, raw=b'{"model": "m", "messages": ['))),
    Question("no JSON object", _of(Request(CHAT, raw=b"[]"))),
    Question("no messages", lambda interview: Request(CHAT, {"model": interview.model})),
    Question("empty messages", lambda interview: Request(CHAT, {"model": interview.model, "messages": []})),
    Question("messages of text", lambda interview: Request(CHAT, {"model": interview.model, "messages": "Hello"})),
    Question("unknown path", _of(Request("/v1/svir-conform", {}))),
    Question("wrong method", _of(Request(CHAT, method="GET"))),
    Question("wrong key", _wrong_key),
    *_both_ways("image", _image),
    *_both_ways("too long", _overflow),
    Question("a client that leaves", _leave),
    Question("after it left", _chat()),
)
"""All questions, in the order they are asked."""
