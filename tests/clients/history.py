"""What a strict server demands of a request: LM Studio's rules, and OpenAI's order of calls and results.

The proxy stands between the clients and such a server, so no request that reaches it may break one of them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_KEYS: Final = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "reasoning_content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
"""The keys of a message of each role; others are foreign."""
_OF_A_CALL: Final = {"index", "parsed_arguments"}
"""Left in a call by the streaming helper of the OpenAI SDK; no server is known to mind."""


def problems_of(body: Mapping[str, Any]) -> list[str]:
    """Everything that the server would refuse, one line each."""
    return [*_messages(body["messages"]), *_choices(body)]


def _messages(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    waiting: list[str] = []
    for number, message in enumerate(messages):
        role = message.get("role")
        if role not in _KEYS:
            yield f"message {number}: the role {role!r}"
            continue
        if foreign := message.keys() - _KEYS[role]:
            yield f"message {number}: {role} has {sorted(foreign)}"
        if not _is_content(message.get("content")):
            yield f"message {number}: the content {message.get('content')!r} of {role}"
        if role == "tool":
            if message.get("tool_call_id") in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                yield f"message {number}: a result of {message.get('tool_call_id')!r}, waited for are {waiting}"
            continue
        if waiting:
            yield f"message {number}: {role}, while {waiting} have no result"
        waiting = []
        for call in message.get("tool_calls", ()):
            yield from (f"message {number}: {problem}" for problem in _call(call))
            if call.get("id") in waiting:
                yield f"message {number}: the id {call['id']!r} twice"
            waiting.append(call.get("id"))
    if waiting:
        yield f"{waiting} have no result"


def _is_content(content: Any) -> bool:
    if isinstance(content, list):
        return bool(content) and all(set(part) == {"type", "text"} and part["type"] == "text" for part in content)
    return isinstance(content, str)


def _call(call: Mapping[str, Any]) -> Iterator[str]:
    function = call.get("function", {})
    if (
        call.keys() - _OF_A_CALL != {"id", "type", "function"}
        or function.keys() - _OF_A_CALL != {"name", "arguments"}
        or not (call["id"] and isinstance(call["id"], str))
        or call["type"] != "function"
        or not function["name"]
    ):
        yield f"the call {call}"
    elif not _is_object(function["arguments"]):
        yield f"the arguments {function['arguments']!r}"


def _is_object(arguments: Any) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except (TypeError, ValueError):
        return False


def _choices(body: Mapping[str, Any]) -> Iterator[str]:
    for tool in body.get("tools", ()):
        parameters = tool.get("function", {}).get("parameters")
        if tool.get("type") != "function" or not isinstance(parameters, dict) or parameters.get("type") != "object":
            yield f"the tool {tool}"
    if body.get("tool_choice", "auto") not in ("none", "auto", "required"):
        yield f"tool_choice {body['tool_choice']!r}"
    if ("tool_choice" in body or "parallel_tool_calls" in body) and not body.get("tools"):
        yield "a choice among no tools"
    if body.get("response_format", {"type": "text"}).get("type") not in ("json_schema", "text"):
        yield f"response_format {body['response_format']!r}"
