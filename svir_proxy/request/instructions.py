"""What a model is told where its server does not hold it to a demand, and what it is told when it did not do it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from svir_proxy.client_request import Body
from svir_proxy.errors import ProxyError
from svir_proxy.request.context import with_values


def call_instruction(names: Collection[str]) -> str:
    """Demand a call of one of *names*."""
    listed = ", ".join(f"`{name}`" for name in names)
    which = f"the function {listed}" if len(names) == 1 else f"one of these functions: {listed}"
    return f"You must now call {which}. Do not answer in text."


def json_instruction(schema: Mapping[str, Any]) -> str:
    """Demand JSON that matches *schema*; raises ProxyError where nobody could read it."""
    if schema in ({}, {"type": "object"}):
        return "Answer with one JSON object and nothing else: no prose, no code fence."
    try:
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise ProxyError(
            "invalid_request", "The schema of 'response_format' is nested too deeply.", param="response_format"
        ) from None
    return (
        "Answer with one JSON value that matches this JSON schema and nothing else: no prose, no code fence.\n" + text
    )


def correction(problem: str, instruction: str) -> str:
    """Demand it once more."""
    return f"Your last answer does not do: {problem}. {instruction}"


def add_instruction(body: Body, text: str) -> Body:
    """*body* with *text* at the end of the system message it begins with, or as one where it begins with another."""
    messages = body["messages"]
    first = messages[0]
    content = first.get("content")
    if first.get("role") not in ("system", "developer") or not isinstance(content, str | list | None):
        return with_values(body, {"messages": [{"role": "system", "content": text}, *messages]})
    if isinstance(content, list):
        content = [*content, {"type": "text", "text": text}]
    else:
        content = f"{content}\n\n{text}" if content else text
    return with_values(body, {"messages": [{**first, "content": content}, *messages[1:]]})
