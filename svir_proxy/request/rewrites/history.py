"""Earlier assistant turns in the form this server takes.

Reasoning goes back under the server's own key: clients send ``reasoning_content`` or ``reasoning``, whatever they got
(and LiteLLM leaves ``provider_specific_fields`` behind). Calls whose arguments are ``""`` get ``{}``, and refusal parts
become text where the server refuses either.
"""

from __future__ import annotations

from typing import Any, Final

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, map_messages

_REASONING_KEYS: Final = ("reasoning_content", "reasoning")


def repair_history(body: Body, context: Context) -> Body:
    """Repair each assistant message."""

    def change(message: dict[str, Any]) -> dict[str, Any]:
        if message.get("role") != "assistant":
            return message
        if "reasoning_content" in message or "reasoning" in message:
            message = _reasoning(message, context)
        return _refusals(_arguments(message, context), context)

    return map_messages(body, change)


def _reasoning(message: dict[str, Any], context: Context) -> dict[str, Any]:
    found = [key for key in _REASONING_KEYS if message.get(key) is not None]
    if not found:
        return message
    wanted = context.profile.request.reasoning_history
    texts = [message[key] for key in found if isinstance(message[key], str)]
    if found == [wanted] and texts:
        return message
    rest = {key: value for key, value in message.items() if key not in _REASONING_KEYS}
    if wanted == "none" or not texts:
        context.note("reasoning_history=left_out")
        return rest
    text = next(filter(None, texts), "")
    context.note(f"reasoning_history={wanted}")
    return {**rest, wanted: text}


def _arguments(message: dict[str, Any], context: Context) -> dict[str, Any]:
    calls = message.get("tool_calls")
    if context.profile.request.empty_arguments == "kept" or not isinstance(calls, list):
        return message
    repaired = [_with_arguments(call) for call in calls]
    if all(new is old for new, old in zip(repaired, calls, strict=True)):
        return message
    context.note("history.arguments=empty_object")
    return {**message, "tool_calls": repaired}


def _with_arguments(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return call
    arguments = function.get("arguments")
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return {**call, "function": {**function, "arguments": "{}"}}
    return call


def _refusals(message: dict[str, Any], context: Context) -> dict[str, Any]:
    content = message.get("content")
    if context.profile.request.refusal_parts == "kept" or not isinstance(content, list):
        return message
    if not any(isinstance(part, dict) and part.get("type") == "refusal" for part in content):
        return message
    context.note("history.refusal=text")
    return {**message, "content": [_as_text(part) for part in content]}


def _as_text(part: Any) -> Any:
    if isinstance(part, dict) and part.get("type") == "refusal":
        return {"type": "text", "text": str(part.get("refusal") or "")}
    return part
