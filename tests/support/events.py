"""Events as a table of cases needs them: texts cut small on the way in, put together on the way out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from svir_proxy.response.events import (
    ArgumentsDelta,
    ContentDelta,
    ReasoningDelta,
    RefusalDelta,
    StageEvent,
    ToolCallPiece,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TEXTS: Final = (ContentDelta, ReasoningDelta, RefusalDelta, ArgumentsDelta)


def merged(events: Iterable[StageEvent]) -> list[StageEvent]:
    """*events* with neighbouring pieces of one text put together; asserts that no piece is empty."""
    together: list[StageEvent] = []
    for event in events:
        last = together[-1] if together else None
        if isinstance(event, TEXTS):
            assert event.text
            if type(last) is type(event) and getattr(last, "index", None) == getattr(event, "index", None):
                together[-1] = replace(event, text=last.text + event.text)
                continue
        together.append(event)
    return together


def in_characters(events: Iterable[StageEvent]) -> Iterator[StageEvent]:
    """*events* with every text cut into single characters."""
    for event in events:
        if isinstance(event, ToolCallPiece) and not event.whole and event.arguments:
            first, *rest = event.arguments
            yield replace(event, arguments=first)
            for character in rest:
                yield replace(event, name="", arguments=character)
        elif isinstance(event, TEXTS):
            for character in event.text:
                yield replace(event, text=character)
        else:
            yield event
