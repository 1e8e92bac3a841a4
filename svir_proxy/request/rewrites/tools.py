"""Tools and the choice between them, in the form and with the force that the server keeps.

The decision table of ``tool_choice`` (with tools offered; *demand* is: instruct, check the answer, repeat once):

========  ======  ==============  ======================  ======================================  ===================
fact      auto    none            required                named                                   allowed_tools
========  ======  ==============  ======================  ======================================  ===================
kept      send    send            send                    send                                    send
unknown   send    send            send                    send                                    only these tools
ignored   send    drop the tools  send, demand            only that tool, then as ``required``    only these tools
rejected  drop    drop the tools  ``auto``, demand        only that tool, then as ``required``    only these tools
========  ======  ==============  ======================  ======================================  ===================
"""

from __future__ import annotations

from typing import Any

from svir_proxy.client_request import Body
from svir_proxy.expectation import Expectation
from svir_proxy.request.context import Context, map_messages, with_values, without
from svir_proxy.request.instructions import add_instruction, call_instruction


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
    if isinstance(choice, dict):
        return _keep_object(body, context, choice, tools)
    facts = context.profile.request.tool_choice
    if choice == "none" and facts.none in ("ignored", "rejected"):
        context.note("tool_choice.none=tools_dropped")
        return without(body, "tools", "tool_choice", "parallel_tool_calls")
    if choice == "required":
        return _require(body, context, "tool_choice.required")
    if choice == "auto" and facts.auto == "rejected":
        context.note("tool_choice.auto=dropped")
        return without(body, "tool_choice")
    return body


def _keep_object(body: Body, context: Context, choice: dict[str, Any], tools: list[Any]) -> Body:
    facts = context.profile.request.tool_choice
    if choice.get("type") == "allowed_tools" and facts.allowed_tools != "kept":
        return _allow(body, context, choice, tools)
    nested = _nested(choice)
    if nested is not choice:
        context.note("tool_choice=nested")
        body = with_values(body, {"tool_choice": nested})
    name = context.request.named_tool
    if facts.named in ("kept", "unknown") or name is None:
        return body
    only = [tool for tool in tools if _tool_name(tool) == name]
    if not only:
        return body  # the server's to refuse
    context.note("tool_choice.named=only_tool")
    return _require(with_values(body, {"tools": only, "tool_choice": "required"}), context, "tool_choice.named")


def _allow(body: Body, context: Context, choice: dict[str, Any], tools: list[Any]) -> Body:
    """A choice among some of the tools: only these are offered."""
    inner = choice.get("allowed_tools")
    allowed = inner if isinstance(inner, dict) else choice
    listed = allowed.get("tools")
    names = {_tool_name(tool) for tool in listed} if isinstance(listed, list) else set()
    only = [tool for tool in tools if _tool_name(tool) in names]
    if not only:
        return body  # the server's to refuse
    context.note("tool_choice.allowed_tools=only_tools")
    mode = "required" if allowed.get("mode") == "required" else "auto"
    return keep_tool_choice(with_values(body, {"tools": only, "tool_choice": mode}), context)


def _require(body: Body, context: Context, fact: str) -> Body:
    """A call of one of the tools that are left."""
    required = context.profile.request.tool_choice.required
    if required in ("kept", "unknown"):
        return body
    if required == "rejected":
        context.note("tool_choice.required=auto")
        body = with_values(body, {"tool_choice": "auto"})
    names = [name for tool in body["tools"] if isinstance(name := _tool_name(tool), str)]
    context.note(f"{fact}=instructed")
    context.expect(Expectation(fact, calls=frozenset(names)))
    return add_instruction(body, call_instruction(names))


def _nested(choice: dict[str, Any]) -> dict[str, Any]:
    """The flat form of a named choice, ``{"type": "function", "name": ...}``, as Chat Completions writes it."""
    if choice.get("type") == "function" and "function" not in choice and isinstance(choice.get("name"), str):
        return {"type": "function", "function": {"name": choice["name"]}}
    return choice


def _tool_name(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else tool.get("name")
    return name if isinstance(name, str) else None
