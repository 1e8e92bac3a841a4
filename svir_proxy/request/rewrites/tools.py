"""Tools and the choice between them, in the form and with the force that the server keeps.

The decision table of ``tool_choice`` (with tools offered):

========  ======  ====================  ==================  ======================================
fact      auto    none                  required            named
========  ======  ====================  ==================  ======================================
kept      send    send                  send                send
ignored   send    drop the tools        send                only that tool, then as ``required``
rejected  drop    drop the tools        ``auto``            only that tool, then as ``required``
unknown   send    send                  send                send
========  ======  ====================  ==================  ======================================
"""

from __future__ import annotations

from typing import Any

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, map_messages, with_values, without


def translate_functions(body: Body, context: Context) -> Body:
    """The deprecated ``functions``, ``function_call`` and ``function`` messages as tools, where the server has none."""
    if context.profile.request.legacy_functions in ("kept", "unknown"):
        return body
    functions = body.get("functions")
    if isinstance(functions, list) and functions and "tools" not in body:
        context.note("functions=tools")
        body = with_values(
            without(body, "functions"), {"tools": [{"type": "function", "function": item} for item in functions]}
        )
    if "function_call" in body:
        choice = body["function_call"]
        body = without(body, "function_call")
        if "tools" in body and "tool_choice" not in body:
            named = isinstance(choice, dict)
            body = with_values(body, {"tool_choice": {"type": "function", "function": choice} if named else choice})
    return map_messages(body, _translate_message)


def _translate_message(message: dict[str, Any]) -> dict[str, Any]:
    if message.get("role") == "function":
        name = message.get("name", "")
        rest = {key: value for key, value in message.items() if key != "name"}
        return {**rest, "role": "tool", "tool_call_id": f"call_{name}"}
    call = message.get("function_call")
    if message.get("role") == "assistant" and isinstance(call, dict) and "tool_calls" not in message:
        rest = {key: value for key, value in message.items() if key != "function_call"}
        return {**rest, "tool_calls": [{"id": f"call_{call.get('name', '')}", "type": "function", "function": call}]}
    return message


def leave_out_empty_tools(body: Body, context: Context) -> Body:
    """No tools at all rather than an empty list, and no choice between none of them."""
    if body.get("tools") or context.profile.request.empty_tools == "kept":
        return body
    names = [name for name in ("tools", "tool_choice", "parallel_tool_calls") if name in body]
    if body.get("functions"):
        names = [name for name in names if name == "tools"]
    if not names:
        return body
    context.note(f"tools=none_offered:{'+'.join(names)}")
    return without(body, *names)


def keep_tool_choice(body: Body, context: Context) -> Body:
    """Make the choice true on a server that ignores or rejects it."""
    choice = body.get("tool_choice")
    tools = body.get("tools")
    if choice is None or not isinstance(tools, list) or not tools:
        return body
    facts = context.profile.request.tool_choice
    if isinstance(choice, dict):
        choice = _nested(choice)
        if choice is not body["tool_choice"]:
            context.note("tool_choice=nested")
            body = with_values(body, {"tool_choice": choice})
        name = context.request.named_tool
        if facts.named in ("kept", "unknown") or name is None:
            return body
        only = [tool for tool in tools if _tool_name(tool) == name]
        if not only:
            return body  # the server's to refuse
        context.note("tool_choice.named=only_tool")
        return _required(with_values(body, {"tools": only, "tool_choice": "required"}), context)
    if choice == "none" and facts.none in ("ignored", "rejected"):
        context.note("tool_choice.none=tools_dropped")
        return without(body, "tools", "tool_choice", "parallel_tool_calls")
    if choice == "required":
        return _required(body, context)
    if choice == "auto" and facts.auto == "rejected":
        context.note("tool_choice.auto=dropped")
        return without(body, "tool_choice")
    return body


def _required(body: Body, context: Context) -> Body:
    fact = context.profile.request.tool_choice.required
    if fact == "rejected":
        context.note("tool_choice.required=auto")
        return with_values(body, {"tool_choice": "auto"})
    if fact == "ignored":
        context.note("tool_choice.required=not_enforced")
    return body


def _nested(choice: dict[str, Any]) -> dict[str, Any]:
    """The flat form of a named choice, ``{"type": "function", "name": ...}``, as Chat Completions writes it."""
    if choice.get("type") == "function" and "function" not in choice and isinstance(choice.get("name"), str):
        return {"type": "function", "function": {"name": choice["name"]}}
    return choice


def _tool_name(tool: Any) -> Any:
    function = tool.get("function") if isinstance(tool, dict) else None
    return function.get("name") if isinstance(function, dict) else None
