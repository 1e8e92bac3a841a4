"""What OpenTelemetry calls the things that a span tells: the conventions for HTTP and for generative AI.

Those for HTTP are stable. Those for generative AI are in development, in a repository of their own
(open-telemetry/semantic-conventions-genai), taken here as they were in November 2026. What they have no name for is
under ``svir.``. Nothing of a prompt or an answer is in any of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

Attributes = dict[str, Any]
"""Name to a text, a number, a truth value or a list of texts."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"})
_ROUTES: Final = (
    (re.compile(r"/(?:chat/completions|completions|embeddings|rerank|moderations|responses|models)"), "/v1{path}"),
    (re.compile(r"/models/.+"), "/v1/models/{{id}}"),
    (re.compile(r"/(audio|images)/.+"), "/v1/{first}/{{endpoint}}"),
)
_OPERATIONS: Final = {
    "chat": "chat",
    "responses": "chat",
    "completions": "text_completion",
    "embeddings": "embeddings",
}
"""By the first part of a path below /v1; what has no name in the conventions is called what the path calls it."""
_LONGEST: Final = 200
"""Characters of what others choose."""
_NUMBERS: Final = {
    "max_tokens": ("max_tokens", int),
    "max_completion_tokens": ("max_tokens", int),
    "seed": ("seed", int),
    "top_k": ("top_k", float),
    "top_p": ("top_p", float),
    "temperature": ("temperature", float),
    "frequency_penalty": ("frequency_penalty", float),
    "presence_penalty": ("presence_penalty", float),
}
"""Fields of a request that are told: under ``gen_ai.request.``, and as what kind of number."""
_LARGEST: Final = 2**63
"""No whole number of a span is as large."""


def method_of(method: str) -> str:
    """*method*, or ``_OTHER`` for one that a client made up."""
    return method if method in _METHODS else "_OTHER"


def route_of(path: str) -> str | None:
    """The route that *path*, below /v1, is answered by; None: none."""
    for pattern, route in _ROUTES:
        if found := pattern.fullmatch(path):
            return route.format(path=path, first=found[1] if pattern.groups else "")
    return None


def operation_of(path: str) -> str:
    """``gen_ai.operation.name`` of a request to *path*, below /v1."""
    first = path.split("/")[1]
    return _OPERATIONS.get(first, first)


def cut(text: str) -> str:
    """*text*, which others chose, no longer than a span should be told, and as UTF-8 can say it."""
    return text[:_LONGEST].encode("utf-8", "replace").decode()


def of_request(body: Mapping[str, Any]) -> Attributes:
    """What a chat request asks for, beside its words."""
    told: Attributes = {}
    for field, (name, kind) in _NUMBERS.items():
        value = body.get(field)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST:
            told[f"gen_ai.request.{name}"] = kind(value)
    if body.get("stream") is True:
        told["gen_ai.request.stream"] = True
    wanted = body.get("response_format")
    if isinstance(wanted, Mapping):
        told["gen_ai.output.type"] = "json" if str(wanted.get("type")).startswith("json") else "text"
    return told


def of_usage(usage: Mapping[str, Any]) -> Attributes:
    """The token counts of an answer, as `UsageReported` has them."""
    prompt, completion = (usage.get(f"{part}_tokens_details") or {} for part in ("prompt", "completion"))
    counts = {
        "input_tokens": usage.get("prompt_tokens"),
        "output_tokens": usage.get("completion_tokens"),
        "cache_read.input_tokens": prompt.get("cached_tokens"),
        "reasoning.output_tokens": completion.get("reasoning_tokens"),
    }
    return {
        f"gen_ai.usage.{name}": count
        for name, count in counts.items()
        if isinstance(count, int) and abs(count) < _LARGEST
    }
