"""The ``name`` of a tool message: the function that was called.

Gemini refuses a result without it ("Name cannot be empty"), Groq one that has it ("property 'name' is unsupported").
The protocol has no such key; the call that the result belongs to tells the name.
"""

from __future__ import annotations

from typing import Any

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, map_messages


def name_results(body: Body, context: Context) -> Body:
    """Name the function in each result, or leave its name out, as the server wants it."""
    wanted = context.profile.request.tool_message_name
    if wanted == "any":
        return body
    names = dict(_names(body)) if wanted == "required" else {}

    def change(message: dict[str, Any]) -> dict[str, Any]:
        if message.get("role") != "tool":
            return message
        if wanted == "rejected" and "name" in message:
            context.note("tool.name=left_out")
            return {key: value for key, value in message.items() if key != "name"}
        called = message.get("tool_call_id")
        if wanted == "required" and not message.get("name") and isinstance(called, str) and called in names:
            context.note("tool.name=added")
            return {**message, "name": names[called]}
        return message

    return map_messages(body, change)


def _names(body: Body) -> list[tuple[str, str]]:
    """The id of each call in the history, and the name of its function."""
    found = []
    for message in body["messages"]:
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict) and isinstance(call.get("id"), str) and isinstance(function.get("name"), str):
                found.append((call["id"], function["name"]))
    return found
