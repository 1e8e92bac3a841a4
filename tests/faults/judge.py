"""What a client must see of an exchange, and whether it does."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from svir_proxy.conform import dialect
from svir_proxy.conform.judge import UPSTREAM_KEY
from tests.faults.wire import WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from svir_proxy.conform.judge import Seen

_ERRORS: Final[dict[str, tuple[int, str, str | None]]] = {
    "invalid_request": (400, "invalid_request_error", None),
    "unsupported_parameter": (400, "invalid_request_error", "unsupported_parameter"),
    "rate_limit_exceeded": (429, "rate_limit_error", "rate_limit_exceeded"),
    "upstream_auth_failed": (502, "upstream_error", "upstream_auth_failed"),
    "upstream_unreachable": (502, "upstream_error", "upstream_unreachable"),
    "upstream_bad_response": (502, "upstream_error", "upstream_bad_response"),
    "upstream_failed": (502, "upstream_error", "upstream_failed"),
    "stream_truncated": (502, "upstream_error", "stream_truncated"),
    "upstream_unavailable": (503, "upstream_error", "upstream_unavailable"),
    "overloaded": (503, "upstream_error", "overloaded"),
    "upstream_timeout": (504, "upstream_error", "upstream_timeout"),
}
"""Status, type and code of the errors that an upstream can cause: the dialect's table."""


@dataclass(frozen=True, slots=True)
class Sees:
    """What a client must see.

    Attributes:
        words: How many words of the answer, from the first on.
        error: What ends the answer, a key of the dialect's table; None: it is whole.
        says: What the error's message holds.
        begun: The stream has begun without any word, so that its error has no status.
    """

    words: int = len(WORDS)
    error: str | None = None
    says: str = ""
    begun: bool = False


def judge(expected: Sees, seen: Seen, *, streamed: bool) -> list[str]:
    """Everything that is wrong with what was *seen*; an error after output is known by the words before it."""
    problems = list(_envelope(seen))
    begun = streamed and (expected.error is None or expected.words > 0 or expected.begun)
    status, *error = _ERRORS[expected.error] if expected.error else (200, "", None)
    if seen.status != (200 if begun or expected.error is None else status):
        return [*problems, f"status {seen.status}: {seen.body[:300]!r}"]
    if begun:
        if seen.headers.get("content-type") != "text/event-stream; charset=utf-8":
            problems.append(f"content-type {seen.headers.get('content-type')!r}")
        problems += dialect.check_stream(seen.body, include_usage=True, usage_optional=True)
        said = dialect.summarize(seen.body)
    elif expected.error is None:
        problems += dialect.check_completion(seen.body)
        said = dialect.summarize_completion(seen.body)
    else:
        problems += dialect.check_error(seen.body)
        said = dialect.summarize_completion(seen.body)
    words = "".join(WORDS[: expected.words]) if begun or expected.error is None else ""
    if said["content"] != words:
        problems.append(f"content {said['content']!r}, not {words!r}")
    if said["reasoning"] or said["refusal"] or said["tool_calls"]:
        problems.append("something was invented")
    return problems + list(_end(expected, said["finish_reason"], said["error"], error))


def _envelope(seen: Seen) -> Iterator[str]:
    if not seen.clean:
        yield "the HTTP body was cut off"
    if not seen.headers.get("x-request-id"):
        yield "no x-request-id"
    if UPSTREAM_KEY.encode() in seen.body or any(UPSTREAM_KEY in value for value in seen.headers.values()):
        yield "the upstream key leaked"
    if b"Traceback" in seen.body:
        yield "the proxy's insides show"
    wait = seen.headers.get("retry-after", "")
    if seen.status in (429, 503) and not (wait.isdigit() and int(wait) <= 60):
        yield f"retry-after is {wait!r}"


def _end(expected: Sees, finish: str | None, got: object, error: list[str | None]) -> Iterator[str]:
    if expected.error is None:
        if finish != "stop":
            yield f"finish_reason {finish!r}"
        if got is not None:
            yield f"an error: {got}"
        return
    if finish is not None:
        yield f"a finish of {finish!r} beside an error"
    if not isinstance(got, dict):
        yield "no error"
    elif [got.get("type"), got.get("code")] != error:
        yield f"the error {json.dumps(got)}, not {expected.error}"
    elif not re.search(expected.says, got["message"]):
        yield f"the message {got['message']!r} lacks {expected.says!r}"
