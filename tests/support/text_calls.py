"""Runs the stage for calls written as text over a text cut in several ways."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from svir_proxy.response.events import ContentDelta, Ended, StageEvent, ToolCallPiece
from svir_proxy.response.stages.text_calls import TextCalls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TOOLS: Final[dict[str, dict[str, Any]]] = {
    "get_tide": {"type": "object", "properties": {"harbour": {"type": "string"}, "days": {"type": "integer"}}},
    "get_tide_table": {"type": "object", "properties": {}},
    "write": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "text": {"type": "string"},
            "lines": {"type": "array", "items": {"type": "integer"}},
            "options": {"type": "object"},
            "force": {"type": "boolean"},
            "mode": {"type": ["string", "null"]},
        },
    },
}

Answer = tuple[str, list[tuple[str, Any]]]
"""The content, and each call's name and arguments as a value."""


def events_of(
    pieces: Iterable[str], tools: Mapping[str, Mapping[str, Any]] = TOOLS, limit: int = 1 << 20
) -> list[StageEvent]:
    """What the stage says to content in *pieces* and its end."""
    events: list[StageEvent] = []
    stage = TextCalls(events.append, tools, limit)
    for piece in pieces:
        if piece:
            stage.feed(ContentDelta(piece))
    stage.feed(Ended())
    return events


def answer_of(events: Iterable[StageEvent]) -> Answer:
    """The events put together; checks that calls are whole, without id and index."""
    text, calls = [], []
    for event in events:
        if isinstance(event, ContentDelta):
            assert event.text
            text.append(event.text)
        elif isinstance(event, ToolCallPiece):
            assert (event.index, event.id, event.whole) == (None, "", True)
            event.arguments.encode()
            calls.append((event.name, json.loads(event.arguments)))
            assert isinstance(calls[-1][1], dict)
    return "".join(text), calls


def read(text: str, tools: Mapping[str, Mapping[str, Any]] = TOOLS, limit: int = 1 << 20) -> Answer:
    """What the stage makes of *text*, which is the same however it is cut."""
    whole = answer_of(events_of([text], tools, limit))
    for size in (1, 3, 7):
        assert answer_of(events_of((text[at : at + size] for at in range(0, len(text), size)), tools, limit)) == whole
    return whole
