"""Messages in an order, and under roles, that the server's chat template takes.

``developer`` is dropped or refused by templates that know no such role (llama.cpp, mlx-lm, vLLM, DeepSeek); a late
``system`` message is refused by Qwen's ("System message must be at the beginning."), two messages of one role in a row
by Mistral's and Gemma's ("conversation roles must alternate").
"""

from __future__ import annotations

from typing import Any, Final

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, map_messages, with_values

_MERGED: Final = ("user", "assistant")
_GAP: Final = "\n\n"


def translate_roles(body: Body, context: Context) -> Body:
    """``developer`` as ``system``, where it is not known to be kept."""
    if context.profile.request.developer_role == "kept":
        return body

    def change(message: dict[str, Any]) -> dict[str, Any]:
        if message.get("role") != "developer":
            return message
        context.note("role.developer=system")
        return {**message, "role": "system"}

    return map_messages(body, change)


def order_messages(body: Body, context: Context) -> Body:
    """One system message, in front; no two messages of one role in a row; where the server refuses them."""
    facts = context.profile.request
    messages = body["messages"]
    if facts.late_system == "rejected":
        late = [message for message in messages[1:] if message.get("role") == "system"]
        if late:
            context.note("role.system=merged_in_front")
            first = [messages[0]] if messages[0].get("role") == "system" else []
            rest = [message for message in messages if message.get("role") != "system"]
            merged = {"role": "system", "content": _joined([message.get("content") for message in first + late])}
            messages = [merged, *rest]
    if facts.consecutive_roles == "rejected":
        merged_messages: list[dict[str, Any]] = []
        for message in messages:
            if merged_messages and _mergeable(merged_messages[-1], message):
                context.note("role.consecutive=merged")
                before = merged_messages.pop()
                content = _joined([before.get("content"), message.get("content")])
                message = {**before, "content": content}  # noqa: PLW2901 - the message in its place
            merged_messages.append(message)
        if len(merged_messages) != len(messages):
            messages = merged_messages
    return body if messages is body["messages"] else with_values(body, {"messages": messages})


def _mergeable(before: dict[str, Any], message: dict[str, Any]) -> bool:
    role = message.get("role")
    return role in _MERGED and before.get("role") == role and "tool_calls" not in before and "tool_calls" not in message


def _joined(contents: list[Any]) -> Any:
    """Contents one after the other: a string where all are strings, else a list of parts."""
    contents = [content for content in contents if content]
    if all(isinstance(content, str) for content in contents):
        return _GAP.join(contents)
    parts: list[Any] = []
    for content in contents:
        parts += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return parts
