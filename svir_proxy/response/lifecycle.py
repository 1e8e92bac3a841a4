"""What may follow what in an answer. The only state machine of the core; a missing entry drops the event."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Final

from svir_proxy.errors import ProxyError
from svir_proxy.response.events import (
    ArgumentsDelta,
    ContentDelta,
    Ended,
    Event,
    ExtrasReported,
    Failed,
    Finished,
    Identified,
    LogprobsReported,
    Noted,
    ReasoningDelta,
    RefusalDelta,
    StageEvent,
    ToolCallStarted,
    UsageReported,
)


class State(Enum):
    """How far an answer is."""

    WAITING = "waiting"
    """No output yet: a failure can still be an HTTP error."""
    ANSWERING = "answering"
    FINISHED = "finished"
    """The finish reason is out; the usage may follow."""
    COMPLETE = "complete"
    FAILED = "failed"

    __hash__ = object.__hash__  # an Enum's own hash is that of the name, in Python


OVER: Final[Collection[State]] = (
    State.COMPLETE,
    State.FAILED,
)  # no set: looking a member up there costs more than all of them
OUTPUT: Final = (ContentDelta, ReasoningDelta, RefusalDelta, ToolCallStarted, ArgumentsDelta)

_ASIDE: Final = (Identified, LogprobsReported, ExtrasReported, Noted)  # said about the answer, not part of its course

TRANSITIONS: Final[dict[State, dict[type, State]]] = {
    State.WAITING: {
        **dict.fromkeys(OUTPUT, State.ANSWERING),
        **dict.fromkeys(_ASIDE, State.WAITING),
        Finished: State.FINISHED,
        Failed: State.FAILED,
    },
    State.ANSWERING: {
        **dict.fromkeys((*OUTPUT, *_ASIDE), State.ANSWERING),
        Finished: State.FINISHED,
        Failed: State.FAILED,
    },
    State.FINISHED: {UsageReported: State.FINISHED, Noted: State.FINISHED, Ended: State.COMPLETE, Failed: State.FAILED},
    State.COMPLETE: {},
    State.FAILED: {},
}
_AT_FIRST: Final = TRANSITIONS[State.WAITING]
_AT_LAST: Final = TRANSITIONS[State.COMPLETE]


class Lifecycle:
    """The end of the stages: collects the events that may leave the core."""

    __slots__ = ("_next", "error", "events", "state")

    def __init__(self) -> None:
        self.state = State.WAITING
        self._next = _AT_FIRST
        self.events: list[Event] | None = None
        """Those since the last `take`; None: none."""
        self.error: ProxyError | None = None
        """Why the answer failed, if it did."""

    def feed(self, event: StageEvent) -> None:
        """Take the next event."""
        state = self._next.get(type(event))
        if state is None:
            return
        if state is not self.state:
            self.state = state
            self._next = TRANSITIONS[state]
            if type(event) is Failed:
                self.error = event.error
        if self.events is None:
            self.events = [event]  # type: ignore[list-item]  # no internal event is in the table
        else:
            self.events.append(event)  # type: ignore[arg-type]

    def complete(self, events: list[Event]) -> None:
        """Take all the events of a complete answer, in their order, where none came before."""
        self.state = State.COMPLETE
        self._next = _AT_LAST
        self.events = events

    def take(self) -> list[Event]:
        """The events since the last call."""
        events, self.events = self.events, None
        return [] if events is None else events
