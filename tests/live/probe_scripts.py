"""What a model says to the questions of ``svir-proxy probe``: as an able one would, for both kinds of live servers."""

from __future__ import annotations

from typing import Final

from svir_proxy.probe.dialogue import HELLOS
from svir_proxy.probe.questions.tools import CALLS, TWO_CALLS

GREETING: Final = "Hello! How can I help you today?"
JSON: Final = '{"fruit": "medlar"}'


def _call(name: str, **arguments: str) -> str:
    given = ", ".join(f'"{key}": "{value}"' for key, value in arguments.items())
    return f'<tool_call>\n{{"name": "{name}", "arguments": {{{given}}}}}\n</tool_call>'


LOCKER: Final = _call("open_locker", number="7")
TEXTS: Final = {
    "default": "I see.",
    "greeting": f"<think>\nA greeting is wanted.\n</think>\n\n{GREETING}",
    "call": _call("get_weather", city="Oslo"),
    "two-calls": f"{_call('get_weather', city='Oslo')}\n{_call('get_weather', city='Bergen')}",
}
PHRASES: Final = {
    **dict.fromkeys(HELLOS, "greeting"),
    **dict.fromkeys(CALLS, "call"),
    TWO_CALLS: "two-calls",
}
"""The sentences of the probe, and which of the texts answers them."""
