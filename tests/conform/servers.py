"""A server that keeps every rule, and what makes it break one: pure functions, from a request to what comes back.

It shows every rule as well: it fails once in the middle of a stream, and is once too busy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

from svir_proxy.conform.exchange import Exchange, Request
from svir_proxy.conform.interview import PROMPTS, Interview
from svir_proxy.conform.questions import QUESTIONS
from svir_proxy.conform.report import Report, report_on
from svir_proxy.conform.session import hold

MODEL: Final = "maker/model"
CONTEXT: Final = 100
SAID: Final = "It passes requests on to servers."
THOUGHT: Final = "Seventeen times twenty is 340, and 51."
HEAD: Final = {"id": "chatcmpl-1", "created": 1_790_000_000, "model": MODEL}
STREAM: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
    "x-request-id": "r-1",
}
JSON: Final = {"content-type": "application/json", "x-request-id": "r-1"}
DONE: Final = "[DONE]"
ARGUMENTS: Final = {"open_locker": '{"id": 7}', "get_weather": '{"city": "Oslo", "days": 3}'}

Change = Callable[[str, Exchange], Exchange]
"""What a server does differently: from the question's name and the right answer to its own."""

Applies = Callable[[str, Exchange], bool]
"""Which answers a change is about."""


def interviewed(change: Change = lambda _, exchange: exchange) -> Report:
    """The report on the server with a *change*."""
    asked: list[str] = []
    interview = Interview(MODEL, CONTEXT, keyed=True)
    hold(interview, lambda request: change(asked[-1], answer(request)), lambda _number, _of, name: asked.append(name))
    return report_on("http://server", interview)


def broken(change: Change) -> set[str]:
    """The names of the rules that a server with this *change* breaks."""
    return {finding.rule.name for finding in interviewed(change).broken()}


# ----------------------------------------------------------------- the server


def answer(request: Request) -> Exchange:
    """The right answer."""
    if request.key == "wrong":
        return refusal(request, 401, "invalid_api_key")
    path = request.path.removeprefix("/v1")
    if request.verb == "GET" and path == "/models":
        return document(request, {"object": "list", "data": [_model()]})
    if request.verb == "GET" and path.startswith("/models/"):
        known = unquote(path).removeprefix("/models/") == MODEL
        return document(request, _model()) if known else refusal(request, 404, "model_not_found")
    if path != "/chat/completions" or request.verb != "POST":
        return refusal(request, 404, "unknown_url")
    return _chat(request)


def _chat(request: Request) -> Exchange:
    body = request.body
    if request.raw is not None:
        return refusal(request, 400, "invalid_json")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return refusal(request, 400, None)
    if body["model"] != MODEL:
        return refusal(request, 404, "model_not_found")
    if body.get("n") == 2:
        return refusal(request, 400, "unsupported_parameter")
    prompt = messages[-1]["content"]
    if isinstance(prompt, list):
        if prompt[0]["type"] == "image_url":
            return refusal(request, 400, "image_not_supported")
        prompt = prompt[0]["text"]
    if len(prompt) > CONTEXT * 5:
        return refusal(request, 400, "context_length_exceeded", "The maximum context length is 100 tokens.")
    if prompt == PROMPTS["calls"] and not body.get("stream") and not body.get("tool_choice"):
        return refusal(request, 503, "overloaded")
    return _answered(request, _said(body, prompt))


def _model() -> dict[str, Any]:
    return {"id": MODEL, "object": "model", "created": 1, "owned_by": "maker"}


def _said(body: Mapping[str, Any], prompt: str) -> dict[str, Any]:
    """What the model says: a message, and the finish reason beside it."""
    calls = {PROMPTS["tools"]: ["open_locker"], PROMPTS["calls"]: ["open_locker", "get_weather"]}.get(prompt, [])
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        calls = [choice["function"]["name"]]
    if calls and choice != "none":
        made = [
            {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": ARGUMENTS[name]}}
            for number, name in enumerate(calls)
        ]
        return {"content": None, "tool_calls": made, "finish_reason": "tool_calls", "tokens": 9}
    if "response_format" in body and body["response_format"] is not None:
        return {"content": '{"city": "Oslo", "days": 3}', "finish_reason": "stop", "tokens": 9}
    if prompt == PROMPTS["length"]:
        return {"content": "one two three four five six", "finish_reason": "length", "tokens": 6}
    text = SAID.split(body["stop"][0])[0] if body.get("stop") else SAID
    thought = {"reasoning_content": THOUGHT} if prompt == PROMPTS["think"] else {}
    return {"content": text, **thought, "finish_reason": "stop", "tokens": len(text.split())}


def _answered(request: Request, said: dict[str, Any]) -> Exchange:
    finish, tokens = said.pop("finish_reason"), said.pop("tokens")
    usage = {"prompt_tokens": 4, "completion_tokens": tokens, "total_tokens": 4 + tokens}
    if not request.streamed:
        message = {"role": "assistant", "refusal": None, **said}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        return document(request, {**HEAD, "object": "chat.completion", "choices": [choice], "usage": usage})
    asked = (request.body.get("stream_options") or {}).get("include_usage")
    if asked and request.body.get("max_tokens"):
        return stream(request, [*_deltas(said), envelope(502, "upstream_failed")])
    end: list[Any] = [chunk({}, finish)]
    if asked:
        end.append({**HEAD, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    return stream(request, [*_deltas(said), *end, DONE])


def _deltas(said: Mapping[str, Any]) -> list[Any]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for key in ("reasoning_content", "content"):
        deltas += [{key: word} for word in _words(said.get(key) or "")]
    for index, call in enumerate(said.get("tool_calls", [])):
        function = call["function"]
        deltas.append({"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": function["arguments"]}}]})
    return [chunk(delta) for delta in deltas]


def _words(text: str) -> list[str]:
    return [text[:6], text[6:]] if text else []


# ----------------------------------------------------------------- its forms


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {**HEAD, "object": "chat.completion.chunk", "choices": [choice]}


def envelope(status: int, code: str | None, message: str = "No.") -> dict[str, Any]:
    kind = "invalid_request_error" if status < 500 else "upstream_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def refusal(request: Request, status: int, code: str | None, message: str = "No.") -> Exchange:
    more = {"retry-after": "1"} if status == 503 else {"x-should-retry": "false"}
    return Exchange(request, status, {**JSON, **more}, json.dumps(envelope(status, code, message)).encode())


def document(request: Request, value: Any) -> Exchange:
    return Exchange(request, 200, JSON, json.dumps(value).encode())


def stream(request: Request, items: list[Any]) -> Exchange:
    return Exchange(request, 200, STREAM, sse(items))


def sse(items: list[Any]) -> bytes:
    """Events; a text is a payload as it is."""
    return b"".join(b"data: %b\n\n" % (item if isinstance(item, str) else json.dumps(item)).encode() for item in items)


def events(body: bytes) -> list[Any]:
    payloads = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    return [payload if payload == DONE else json.loads(payload) for payload in payloads]


# ----------------------------------------------------------------- which answers


def to(*questions: str) -> Applies:
    """The answers to these questions."""
    known = {question.name for question in QUESTIONS}
    assert set(questions) <= known, set(questions) - known
    return lambda question, _: question in questions


def streams(_: str, exchange: Exchange) -> bool:
    """Streams that are whole."""
    return exchange.body.endswith(b"data: [DONE]\n\n")


def answers(_: str, exchange: Exchange) -> bool:
    """Plain answers of the model."""
    return exchange.status == 200 and exchange.request.verb == "POST" and not exchange.request.streamed


def failures(_: str, exchange: Exchange) -> bool:
    """HTTP errors."""
    return (exchange.status or 0) >= 400


def holding(text: bytes, of: Applies = lambda *_: True) -> Applies:
    """Those whose body has *text* in it."""
    return lambda question, exchange: of(question, exchange) and text in exchange.body


# ----------------------------------------------------------------- what becomes of them


def becomes(applies: Applies, other: Callable[[Request], Exchange]) -> Change:
    """Another answer."""
    return lambda question, exchange: other(exchange.request) if applies(question, exchange) else exchange


def refused(applies: Applies, status: int, code: str | None = None) -> Change:
    """An error."""
    return becomes(applies, lambda request: refusal(request, status, code))


def in_events(edit: Callable[[list[Any]], list[Any] | None], applies: Applies = streams) -> Change:
    """Edits the events of whole streams: in place, or into what is returned; one with nothing to edit stays."""

    def change(question: str, exchange: Exchange) -> Exchange:
        if not (streams(question, exchange) and applies(question, exchange)):
            return exchange
        items = events(exchange.body)
        edited = edit(items)
        return replace(exchange, body=sse(items if edited is None else edited))

    return change


def in_bytes(applies: Applies, edit: Callable[[bytes], bytes]) -> Change:
    """Edits the bytes of the body."""
    return lambda question, exchange: (
        replace(exchange, body=edit(exchange.body)) if applies(question, exchange) else exchange
    )


def said(applies: Applies, old: bytes, new: bytes) -> Change:
    """Replaces bytes of the body, which have to be there."""
    return in_bytes(holding(old, applies), lambda body: body.replace(old, new))


def in_document(applies: Applies, edit: Callable[[Any], object]) -> Change:
    """Edits a JSON body in place."""

    def change(body: bytes) -> bytes:
        value = json.loads(body)
        edit(value)
        return json.dumps(value).encode()

    return in_bytes(applies, change)


def headers(applies: Applies, **values: str | None) -> Change:
    """Sets headers, or takes them away; ``_`` stands for a hyphen."""
    named = {name.replace("_", "-"): value for name, value in values.items()}

    def change(question: str, exchange: Exchange) -> Exchange:
        if not applies(question, exchange):
            return exchange
        changed = {**exchange.headers, **named}
        return replace(exchange, headers={name: value for name, value in changed.items() if value is not None})

    return change
