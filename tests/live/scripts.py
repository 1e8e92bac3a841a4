"""What the scripted model can say: a prompt holding ``[[s:NAME]]`` is answered with the script NAME.

The order matters in one way only: of two triggers in one prompt the later script wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.live.script_model import Script

SCRIPTS: Final[dict[str, Script]] = {
    "default": "Hello! How can I help you today?",
    "loop": "round and round the ragged rock it goes, ",
    "emoji": ("Party ", "\U0001f389".encode(), " and f", "\u00e9".encode(), "te \u65e5\u672c"),
    "think": "<think>\nThe user asks for a color. Blue fits.\n</think>\n\nBlue.",
    "think-split": ("<th", "ink", ">\nIs a<b", " or </thi", " here?\n</", "think>", "\n\nYes", ": a<b."),
    "json": '{"city": "Oslo", "days": 3}',
    "call": '<tool_call>\n{"name": "open_locker", "arguments": {"id": 7}}\n</tool_call>',
    "say-call": 'I will open it.\n<tool_call>\n{"name": "open_locker", "arguments": {"id": 12}}\n</tool_call>',
    "think-call": "<think>\nLocker nine is meant.\n</think>\n\n"
    '<tool_call>\n{"name": "open_locker", "arguments": {"id": 9}}\n</tool_call>',
    "two-calls": '<tool_call>\n{"name": "open_locker", "arguments": {"id": 1}}\n</tool_call>\n'
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Troms\u00f8", "days": 3}}\n</tool_call>',
    "opened": "Locker seven is open now.",
}
