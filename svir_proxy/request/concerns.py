"""What a request holds that only some rewrites are about, seen in one pass: those that it does not concern are not run.

Most requests are a few texts and a few settings; three rewrites of four have nothing to look for in them.
"""

from __future__ import annotations

from typing import Final

from svir_proxy.client_request import Body

ALWAYS: Final = 1
"""There is no telling from the request alone."""
NULLS: Final = 2
TOOLS: Final = 4
"""Tools, functions, or a choice between them."""
FORMAT: Final = 8
EFFORT: Final = 16
LIMIT: Final = 32
BEYOND_TEXT: Final = 64
"""A message that is more, or less, than a text of the user, the assistant or the system: parts, calls, results, ..."""

_FIELDS: Final = {
    "tools": TOOLS,
    "tool_choice": TOOLS,
    "parallel_tool_calls": TOOLS,
    "functions": TOOLS,
    "function_call": TOOLS,
    "response_format": FORMAT,
    "reasoning_effort": EFFORT,
    "max_tokens": LIMIT,
    "max_completion_tokens": LIMIT,
}
_ROLES: Final = ("user", "assistant", "system")


def concerns(body: Body) -> int:
    """The sum of what *body* holds."""
    found = ALWAYS
    for name, value in body.items():
        if value is None:
            found |= NULLS
        elif name in _FIELDS:
            found |= _FIELDS[name]
    for message in body["messages"]:
        if len(message) != 2 or message.get("role") not in _ROLES or not isinstance(message.get("content"), str):
            return found | BEYOND_TEXT
    return found
