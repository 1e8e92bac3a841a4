"""The deprecated ``functions``, ``function_call`` and ``function`` messages as tools, where the server has none.

vLLM and llama.cpp ignore them without a word. A result in the old form has no call id: it belongs to the last call of
its function.
"""

from __future__ import annotations

from typing import Any

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, map_messages, with_values, without


def translate_functions(body: Body, context: Context) -> Body:
    """Say it in the words of today where the server is known not to keep the old ones."""
    if context.profile.request.legacy_functions in ("kept", "unknown"):
        return body
    translated = map_messages(_translate_choice(_translate_definitions(body)), _Messages().translate)
    if translated is not body:
        context.note("functions=tools")
    return translated


def _translate_definitions(body: Body) -> Body:
    functions = body.get("functions")
    if not isinstance(functions, list):
        return body
    tools = body.get("tools")
    tools = [*(tools if isinstance(tools, list) else []), *({"type": "function", "function": f} for f in functions)]
    return with_values(without(body, "functions"), {"tools": tools})


def _translate_choice(body: Body) -> Body:
    if "function_call" not in body:
        return body
    choice = body["function_call"]
    body = without(body, "function_call")
    if "tool_choice" in body:
        return body
    return with_values(
        body, {"tool_choice": {"type": "function", "function": choice} if isinstance(choice, dict) else choice}
    )


class _Messages:
    """Gives each old call an id, and its result the same."""

    def __init__(self) -> None:
        self._calls = 0

    def translate(self, message: dict[str, Any]) -> dict[str, Any]:
        """The message in today's form; itself where it is."""
        if message.get("role") == "function":
            rest = {key: value for key, value in message.items() if key != "name"}
            return {**rest, "role": "tool", "tool_call_id": f"function_call_{max(self._calls, 1)}"}
        call = message.get("function_call")
        if message.get("role") != "assistant" or not isinstance(call, dict) or message.get("tool_calls"):
            return message
        self._calls += 1
        rest = {key: value for key, value in message.items() if key != "function_call"}
        return {**rest, "tool_calls": [{"id": f"function_call_{self._calls}", "type": "function", "function": call}]}
