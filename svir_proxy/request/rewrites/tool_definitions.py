"""Tools as the server takes them: without ``strict`` where it is refused, with an object schema where none was given.

The Responses form of a tool, ``{"type": "function", "name": ...}`` without ``function``, is brought into Chat
Completions' own form.
"""

from __future__ import annotations

from typing import Any

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, with_values, without


def leave_out_empty_tools(body: Body, context: Context) -> Body:
    """No tools at all rather than an empty list, and no choice between none of them."""
    if body.get("tools") or context.profile.request.empty_tools != "rejected":
        return body
    names = [name for name in ("tools", "tool_choice", "parallel_tool_calls") if name in body]
    if body.get("functions"):
        names = [name for name in names if name == "tools"]
    if not names:
        return body
    context.note(f"tools=none_offered:{'+'.join(names)}")
    return without(body, *names)


def define_tools(body: Body, context: Context) -> Body:
    """Change each tool's definition where the server needs it."""
    tools = body.get("tools")
    if not isinstance(tools, list):
        return body
    changed = [_define(tool, context) for tool in tools]
    if all(new is old for new, old in zip(changed, tools, strict=True)):
        return body
    return with_values(body, {"tools": changed})


def _define(tool: Any, context: Context) -> Any:
    if not isinstance(tool, dict) or tool.get("type", "function") != "function":
        return tool
    function = tool.get("function")
    if function is None and isinstance(tool.get("name"), str):
        function = {key: value for key, value in tool.items() if key not in ("type", "function")}
        tool = {"type": "function", "function": function}
        context.note("tools=nested")
    if not isinstance(function, dict):
        return tool
    facts = context.profile.request
    new = function
    if "strict" in new and (new["strict"] is None or facts.tool_strict == "rejected"):
        context.note("tools.strict=dropped")
        new = {key: value for key, value in new.items() if key != "strict"}
    if facts.empty_parameters in ("rejected", "ignored") and not new.get("parameters"):
        context.note("tools.parameters=empty_object")
        new = {**new, "parameters": {"type": "object", "properties": {}}}
    return tool if new is function else {**tool, "function": new}
