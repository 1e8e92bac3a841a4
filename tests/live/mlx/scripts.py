"""What the scripted model can say: a prompt holding ``[[s:NAME]]`` is answered with the script NAME.

A script of several texts says the next one after each further message of a user, as which the template also writes a
tool's result: so the proxy's correction, which it words itself, gets another answer than the request before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Script:
    """What is said to one trigger; one byte is one token, and so is each tag."""

    texts: tuple[str, ...]
    """Said in turn; the last one also to every later message."""
    endless: bool = False
    """Whether the text is said over and over."""
    fails_after: int | None = None
    """The number of tokens after which the computation fails, as it does on a GPU without memory."""


def _say(*texts: str) -> Script:
    return Script(texts)


def _call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


HELLO: Final = "Hello! How can I help you today?"
TRIP: Final = '{"city": "Oslo", "days": 3}'
_PROSE: Final = "I would rather talk about it."
_LOCKER: Final = _call("open_locker", '{"id": 7}')
_WEATHER: Final = _call("get_weather", '{"city": "Tromsø", "days": 3}')

SCRIPTS: Final[dict[str, Script]] = {
    "default": _say(HELLO),
    "emoji": _say("Party 🎉 and fête 日本"),
    "think": _say("<think>\nThe user asks for a color. Blue fits.\n</think>\n\nBlue."),
    # --- calls
    "call": _say(_LOCKER, "Locker seven is open now."),
    "two-calls": _say(f"I will do both.\n{_LOCKER}\n{_WEATHER}"),
    "think-call": _say(f"<think>\nLocker seven is meant.\n</think>\n\n{_LOCKER}", "Locker seven is open now."),
    "late-call": _say(_PROSE, _LOCKER),
    "late-call-in-json": _say(_PROSE, '{"name": "open_locker", "arguments": {"id": 7}}'),
    "wrong-call": _say(_LOCKER, _WEATHER),
    "no-call": _say(_PROSE, "No, I will not."),
    # --- JSON
    "json": _say(TRIP),
    "fenced-json": _say(f"Here it is:\n```json\n{TRIP}\n```"),
    "think-json": _say(f"<think>\nThey want JSON.\n</think>\n\n{TRIP}"),
    "late-json": _say("Oslo, for three days.", TRIP),
    "unfit-json": _say('{"city": "Oslo", "days": "three"}', TRIP),
    "no-json": _say("Oslo, for three days.", "As I said: Oslo."),
    # --- failures
    "endless": Script(("round and round the ragged rock it goes, ",), endless=True),
    "doomed": Script((HELLO,), fails_after=8),
}
