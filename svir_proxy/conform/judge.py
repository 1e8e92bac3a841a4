"""Holds an answer of the proxy against what every answer must be, and what a case says a client must see."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from svir_proxy.conform import dialect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from svir_proxy.conform.cases import Case

UPSTREAM_KEY: Final = "upstream-secret"
"""The key the proxy has for the upstream in these tests; no client may ever see it."""

_STREAM_HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}

_DISTINCT_CODES: Final = {
    "context_length_exceeded",
    "image_not_supported",
    "content_filter",
    "model_not_found",
    "invalid_api_key",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer as the client saw it; *clean*: its HTTP body ended properly."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    clean: bool = True


def judge(case: Case, seen: Seen, *, reached: bool) -> list[str]:
    """Everything that is wrong with the answer. *reached*: the upstream was asked, so its words must show."""
    if seen.status != case.expect["http_status"]:
        return wrong_content(case, seen, reached=reached)
    usage = asks_for_usage(case.request) and case.expect.get("usage") is not None
    return form(case.request, seen, usage=usage) + wrong_content(case, seen, reached=reached)


def wrong_content(case: Case, seen: Seen, *, reached: bool) -> list[str]:
    """What is wrong with what the answer says, whatever form it says it in."""
    request, expect = case.request, case.expect
    if seen.status != expect["http_status"]:
        return [f"status {seen.status}, not {expect['http_status']}: {seen.body[:200]!r}"]
    streamed = case.streamed and seen.status < 400
    said = dialect.summarize(seen.body) if streamed else dialect.summarize_completion(seen.body)
    problems = [*_content(expect, said, reached), *_usage(case, said)]
    if again := _history_ids(request) & set(said.get("tool_call_ids") or ()):
        problems.append(f"call ids of the history again: {sorted(again)}")
    return problems


def form(request: Mapping[str, Any], seen: Seen, *, usage: bool | None = None) -> list[str]:
    """Everything that is wrong with an answer whatever it says. *usage*: a stream reports it; None: it may if asked."""
    problems = list(_transport(seen))
    named = isinstance(request.get("tool_choice"), dict)
    if seen.status >= 400:
        return problems + dialect.check_error(seen.body)
    if request.get("stream") is not True:
        return problems + dialect.check_completion(seen.body, named_function=named)
    problems += [f"{name} {seen.headers.get(name)!r}" for name, value in _STREAM_HEADERS.items()
                 if seen.headers.get(name) != value]  # fmt: skip
    asked = asks_for_usage(request) if usage is None else usage
    problems += dialect.check_stream(seen.body, asked, named_function=named, usage_optional=usage is None)
    return problems + list(_pieces(seen.body))


def asks_for_usage(request: Mapping[str, Any]) -> bool:
    """Whether a streamed request wants the usage chunk."""
    return bool((request.get("stream_options") or {}).get("include_usage"))


def _transport(seen: Seen) -> Iterator[str]:
    if UPSTREAM_KEY.encode() in seen.body or any(UPSTREAM_KEY in value for value in seen.headers.values()):
        yield "the upstream key leaked"
    if not seen.headers.get("x-request-id"):
        yield "no x-request-id"
    if not seen.clean:
        yield "the HTTP body was cut off"
    wait = seen.headers.get("retry-after", "")
    if seen.status in (429, 503) and not (wait.isdigit() and int(wait) <= 60):
        yield f"retry-after is {wait!r}"


def _pieces(body: bytes) -> Iterator[str]:
    """What the dialect asks of deltas beyond their shape: none empty, none null, one call after the other."""
    last, first = -1, True
    for delta, finish in _deltas(body):
        if first and delta != {"role": "assistant", "content": ""}:
            yield f"the first delta is {delta}"
        if not first and not delta and finish is None:
            yield "an empty delta"
        if not first and (blank := [key for key, value in delta.items() if not value]):
            yield f"a delta whose {blank} is blank"
        first = False
        for piece in delta.get("tool_calls") or ():
            index = piece.get("index") if isinstance(piece, dict) else None
            if not isinstance(index, int):
                continue  # the schema says it
            if index < last:
                yield f"a piece of call {index} after call {last} began"
            last = index


def _deltas(body: bytes) -> Iterator[tuple[dict[str, Any], Any]]:
    """The deltas of a stream, each with its finish reason; what is none, the checker has told."""
    for line in body.splitlines():
        if not line.startswith(b"data: {"):
            continue
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            for choice in json.loads(line[6:]).get("choices") or ():
                delta = choice["delta"]
                if isinstance(delta, dict):
                    yield delta, choice.get("finish_reason")


def _history_ids(request: Mapping[str, Any]) -> set[str]:
    messages = [message for message in request.get("messages") or () if isinstance(message, dict)]
    calls = [call for message in messages for call in message.get("tool_calls") or () if isinstance(call, dict)]
    return {str(call["id"]) for call in calls if call.get("id")}


def _content(expect: Mapping[str, Any], said: Mapping[str, Any], reached: bool) -> Iterator[str]:
    error = said.get("error")
    if expect["outcome"] == "error":
        if not error:
            yield "an error was expected, none seen"
            return
        yield from _error(expect.get("error") or {}, error, reached)
        if not expect.get("partial"):
            return
    elif error:
        yield f"an unexpected error: {error}"
        return
    for key in ("content", "reasoning", "refusal"):
        if key in expect and (expect[key] or None) != (said.get(key) or None):
            yield f"{key} {said.get(key)!r}, not {expect[key]!r}"
    if "tool_calls" in expect:
        wanted, calls = expect["tool_calls"] or [], said.get("tool_calls") or []
        if [call["name"] for call in wanted] != [call["name"] for call in calls]:
            yield f"tool calls {calls}, not {wanted}"
        else:
            for want, call in zip(wanted, calls, strict=True):
                if not _same_json(want["arguments"], call["arguments"]):
                    yield f"arguments {call['arguments']!r}, not {want['arguments']!r}"
    if expect["outcome"] == "answer" and "finish_reason" in expect:
        reason = said.get("finish_reason")
        if reason != expect["finish_reason"]:
            yield f"finish_reason {reason!r}, not {expect['finish_reason']!r}"


def _error(wanted: Mapping[str, Any], error: Any, reached: bool) -> Iterator[str]:
    if not isinstance(error, dict):
        yield f"the error is no object: {error!r}"
        return
    if "type" in wanted and error.get("type") != wanted["type"]:
        yield f"error.type {error.get('type')!r}, not {wanted['type']!r}"
    if "code" in wanted and not _same_code(wanted["code"], error.get("code")):
        yield f"error.code {error.get('code')!r}, not {wanted['code']!r}"
    needle = wanted.get("message_contains")
    if needle and reached and needle.lower() not in str(error.get("message", "")).lower():
        yield f"error.message {error.get('message')!r} lacks {needle!r}"


def _usage(case: Case, said: Mapping[str, Any]) -> Iterator[str]:
    usage = case.expect.get("usage")
    if not usage or case.expect["outcome"] != "answer" or (case.streamed and not asks_for_usage(case.request)):
        return
    got = said.get("usage") or {}
    for key, value in usage.items():
        if isinstance(value, int) and got.get(key) != value:
            yield f"usage.{key} {got.get(key)}, not {value}"


def _same_code(wanted: str | None, got: str | None) -> bool:
    """Whether two codes say the same: a rejection may carry none, a more telling one, or the server's own."""
    if wanted in (None, "unsupported_parameter"):
        return got not in _DISTINCT_CODES and not str(got).startswith(("upstream_", "stream_"))
    if wanted == "rate_limit_exceeded":
        return got in {"rate_limit_exceeded", "quota_exceeded"}
    if wanted in ("upstream_failed", "upstream_unavailable"):
        return got in {"upstream_failed", "upstream_unavailable", "overloaded"}
    return got == wanted


def _same_json(a: str, b: str) -> bool:
    if a == b:
        return True
    try:
        return bool(json.loads(a) == json.loads(b))
    except ValueError:
        return False
