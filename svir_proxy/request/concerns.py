"""What a request holds that only some rewrites are about, seen in one pass: those that it does not concern are not run.

Most requests are a few texts and a few settings; three rewrites of four have nothing to look for in them.
"""

from __future__ import annotations

from typing import Final

from svir_proxy.client_request import Body
from svir_proxy.profiles.schema import RequestFacts

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
SETTINGS: Final = 128
"""A field beside the model, the messages, a stream and a limit, which most requests have and few servers refuse."""
STREAM: Final = 256
"""Whether it is a stream, or what is in one."""
RENAMED: Final = 512
"""A model that has another name at the server; `concerns` does not know."""

_FIELDS: Final = {
    "model": ALWAYS,
    "messages": ALWAYS,
    "stream": STREAM,
    "stream_options": STREAM,
    "tools": SETTINGS | TOOLS,
    "tool_choice": SETTINGS | TOOLS,
    "parallel_tool_calls": SETTINGS | TOOLS,
    "functions": SETTINGS | TOOLS,
    "function_call": SETTINGS | TOOLS,
    "response_format": SETTINGS | FORMAT,
    "reasoning_effort": SETTINGS | EFFORT,
    "max_tokens": LIMIT,
    "max_completion_tokens": LIMIT,
}
_USUAL: Final = tuple(name for name, held in _FIELDS.items() if not held & SETTINGS)
_ROLES: Final = ("user", "assistant", "system")


def concerns(body: Body) -> int:
    """The sum of what *body* holds."""
    found = ALWAYS
    for name, value in body.items():
        if value is None:
            found |= NULLS
        else:
            found |= _FIELDS[name] if name in _FIELDS else SETTINGS  # noqa: SIM401 - without a call for each field
    try:
        for message in body["messages"]:
            if len(message) != 2 or message["role"] not in _ROLES or type(message["content"]) is not str:
                return found | BEYOND_TEXT
    except KeyError:  # it has two other keys
        return found | BEYOND_TEXT
    return found


def added_by(facts: RequestFacts) -> int:
    """The sum of what each request comes to hold for a server of these *facts*: they have something to say of it."""
    added = 0
    if facts.stream == "always" or "stream_options" in facts.always_send:
        added |= STREAM
    if any(facts.optional_fields.get(name) in ("ignored", "rejected") for name in _USUAL):
        added |= SETTINGS
    return added
