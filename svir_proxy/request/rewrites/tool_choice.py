"""The choice between tools, with the force that the server keeps.

The decision table of ``tool_choice`` (with tools offered; *demand* is: instruct, check the answer, repeat once):

========  ======  ==============  ======================  ======================================  ===================
fact      auto    none            required                named                                   allowed_tools
========  ======  ==============  ======================  ======================================  ===================
kept      send    send            send                    send                                    send
unknown   send    send            send                    send                                    only these tools
ignored   send    drop the tools  send, demand            only that tool, then as ``required``    only these tools
rejected  drop    drop the tools  ``auto``, demand        only that tool, then as ``required``    only these tools
========  ======  ==============  ======================  ======================================  ===================

A server that is known to ignore or reject tools altogether is not asked: an answer without a call would look like the
model's own decision.
"""

from __future__ import annotations

from typing import Any

from svir_proxy.client_request import Body
from svir_proxy.errors import ProxyError
from svir_proxy.expectation import Expectation
from svir_proxy.request.context import Context, with_values, without
from svir_proxy.request.instructions import add_instruction, call_instruction


def keep_tool_choice(body: Body, context: Context) -> Body:
    """Make the choice true on a server that ignores or rejects it."""
    choice = body.get("tool_choice")
    tools = body.get("tools")
    if not isinstance(tools, list) or not tools:
        return body
    facts = context.profile.request.tool_choice
    no_tools = context.profile.request.tools in ("ignored", "rejected")
    if no_tools and choice != "none":
        raise ProxyError(
            "unsupported_parameter",
            f"{context.profile.server} takes no tools; send the request without them, or to another model.",
            param="tools",
        )
    if isinstance(choice, dict):
        return _keep_object(body, context, choice, tools)
    if choice == "none" and (no_tools or facts.none in ("ignored", "rejected")):
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
    names = {_tool_name(tool) for tool in listed} - {None} if isinstance(listed, list) else set()
    only = [tool for tool in tools if _tool_name(tool) in names]
    if not only:
        return body  # the server's to refuse
    context.note("tool_choice.allowed_tools=only_tools")
    mode = "required" if allowed.get("mode") == "required" else "auto"
    return keep_tool_choice(with_values(body, {"tools": only, "tool_choice": mode}), context)


def _require(body: Body, context: Context, fact: str) -> Body:
    """A call of one of the tools that are left."""
    required = context.profile.request.tool_choice.required
    names = [name for tool in body["tools"] if (name := _tool_name(tool)) is not None]
    if required in ("kept", "unknown") or not names:
        return body  # tools that are no functions are the server's to judge
    if required == "rejected":
        context.note("tool_choice.required=auto")
        body = with_values(body, {"tool_choice": "auto"})
    context.note(f"{fact}=instructed")
    context.expect(Expectation(fact, calls=frozenset(names)))
    return add_instruction(body, call_instruction(names))


def _nested(choice: dict[str, Any]) -> dict[str, Any]:
    """The flat form of a named choice, ``{"type": "function", "name": ...}``, as Chat Completions writes it."""
    if choice.get("type") == "function" and "function" not in choice and isinstance(choice.get("name"), str):
        return {"type": "function", "function": {"name": choice["name"]}}
    return choice


def _tool_name(tool: Any) -> str | None:
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else tool.get("name")
    return name if isinstance(name, str) else None
