"""Content in the form a server takes: a string where it wants no parts, something where it wants no nothing.

Agents send text as lists of parts (pi, qwen-code, also in tool messages); LiteLLM leaves the ``content`` key out beside
calls; several servers take strings only, or refuse null, or a message without content.

=================  =================================  =========================================
fact               content_parts, tool_content_parts  null_content, missing_content (assistant)
=================  =================================  =========================================
kept, unknown      send                               send
ignored, rejected  text parts as one string           the empty string
=================  =================================  =========================================

A list with anything but text in it is sent as it is: the server says best what it cannot take.
"""

from __future__ import annotations

from typing import Any, Final

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, map_messages

_LEFT_BY_CLIENTS: Final = frozenset({"provider_specific_fields", "reasoning_details", "annotations"})


def shape_content(body: Body, context: Context) -> Body:
    """Shape the content of each message."""

    def change(message: dict[str, Any]) -> dict[str, Any]:
        message = _without_leftovers(message, context)
        content = message.get("content")
        if isinstance(content, list):
            return _flat(message, content, context)
        if content is None and message.get("role") == "assistant":
            return _present(message, context)
        return message

    return map_messages(body, change)


def _without_leftovers(message: dict[str, Any], context: Context) -> dict[str, Any]:
    """Drop what an answer left behind in the history: nulls, empty lists of calls, a client library's own keys."""
    dropped: set[str] = set()
    for key, value in message.items():
        if (value is None and key != "content") or key in _LEFT_BY_CLIENTS or (key == "tool_calls" and value == []):
            dropped.add(key)
    if not dropped:
        return message
    context.note("history=leftovers_dropped" if any(message[key] for key in dropped) else "history=nulls_dropped")
    return {key: value for key, value in message.items() if key not in dropped}


def _flat(message: dict[str, Any], content: list[Any], context: Context) -> dict[str, Any]:
    """Text parts as one string."""
    facts = context.profile.request
    fact = facts.tool_content_parts if message.get("role") in ("tool", "function") else facts.content_parts
    if fact in ("kept", "unknown"):
        return message
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    if len(texts) != len(content) or not all(isinstance(text, str) for text in texts):
        return message
    context.note("content=flattened")
    return {**message, "content": "".join(texts)}  # type: ignore[arg-type]  # all are strings


def _present(message: dict[str, Any], context: Context) -> dict[str, Any]:
    """The empty string where an assistant's message has no content."""
    facts = context.profile.request
    fact = facts.null_content if "content" in message else facts.missing_content
    if fact in ("kept", "unknown"):
        return message
    context.note("content=empty_string")
    return {**message, "content": ""}
