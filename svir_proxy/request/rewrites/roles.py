"""Messages in an order, and under roles, that the server's chat template takes.

``developer`` is dropped or refused by templates that know no such role (llama.cpp, mlx-lm, vLLM, DeepSeek); a late
``system`` message is refused by Qwen's ("System message must be at the beginning."), two messages of one role in a row
by Mistral's and Gemma's ("conversation roles must alternate").

========  ===============  ==============  =================
fact      developer_role   late_system     consecutive_roles
========  ===============  ==============  =================
kept      send             send            send
unknown   system           send            send
ignored   system           one, in front   merge
rejected  system           one, in front   merge
========  ===============  ==============  =================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from svir_proxy.client_request import Body
from svir_proxy.profiles.schema import RequestFacts
from svir_proxy.request.context import Context, map_messages, with_values

_MERGED: Final = ("user", "assistant")
_GAP: Final = "\n\n"
_LOST: Final = ("ignored", "rejected")

Message = dict[str, Any]


def translate_roles(body: Body, context: Context) -> Body:
    """``developer`` as ``system``, where it is not known to be kept."""
    if context.profile.request.developer_role == "kept":
        return body

    def change(message: Message) -> Message:
        if message.get("role") != "developer":
            return message
        context.note("role.developer=system")
        return {**message, "role": "system"}

    return map_messages(body, change)


def orders(facts: RequestFacts) -> bool:
    """Whether `order_messages` has anything to do for a server of these *facts*."""
    return facts.late_system in _LOST or facts.consecutive_roles in _LOST


def order_messages(body: Body, context: Context) -> Body:
    """One system message, in front; no two messages of one role in a row; where the server does not take them."""
    facts = context.profile.request
    sent: list[Message] = body["messages"]
    messages = sent
    if facts.late_system in _LOST:
        messages = _system_in_front(messages)
        if messages is not sent:
            context.note("role.system=merged_in_front")
    if facts.consecutive_roles in _LOST:
        merged = merge_consecutive(messages)
        if len(merged) != len(messages):
            context.note("role.consecutive=merged")
            messages = merged
    return body if messages is sent else with_values(body, {"messages": messages})


def merge_consecutive(messages: Sequence[Message]) -> list[Message]:
    """*messages* with each run of user or of assistant messages made one."""
    merged: list[Message] = []
    for message in messages:
        if merged and _mergeable(merged[-1], message):
            merged[-1] = _merge(merged[-1], message)
        else:
            merged.append(message)
    return merged


def _system_in_front(messages: list[Message]) -> list[Message]:
    """The same list where no system message is late."""
    if not any(map(_is_system, messages[1:])):
        return messages
    first, *late = filter(_is_system, messages)
    for message in late:
        first = _merge(first, message)
    return [first, *(message for message in messages if not _is_system(message))]


def _is_system(message: Message) -> bool:
    return message.get("role") == "system" and _is_joinable(message)


def _mergeable(before: Message, message: Message) -> bool:
    role = message.get("role")
    return (
        role in _MERGED
        and before.get("role") == role
        and not before.get("tool_calls")  # its results stand between them
        and _is_joinable(before)
        and _is_joinable(message)
    )


def _is_joinable(message: Message) -> bool:
    return isinstance(message.get("content"), str | list | None)


def _merge(before: Message, message: Message) -> Message:
    """One message with the content of both, and the keys of either; the earlier one's where both have one."""
    contents = [content for content in (before.get("content"), message.get("content")) if content]
    joined: Any
    if all(isinstance(content, str) for content in contents):
        joined = _GAP.join(contents)
    else:
        joined = []
        for content in contents:
            joined += [{"type": "text", "text": content}] if isinstance(content, str) else content
    kept = {key: value for key, value in before.items() if value is not None}
    return {**message, **kept, "content": joined}
