"""An answer that is held until it is known to be what the request demanded."""

from __future__ import annotations

from collections.abc import Sequence

from svir_proxy.expectation import Expectation, unfenced
from svir_proxy.response.events import ContentDelta, Event, Failed, Finished, RefusalDelta, ToolCallStarted
from svir_proxy.server.answer import BEGINNING, Answer, Source


class HeldAnswer:
    """Gathers an answer in front of the one that the client gets; meanwhile that one is kept alive.

    Held output is none: a failure after it still has a status of its own.
    """

    gathers = True

    def __init__(self, answer: Answer, expectation: Expectation) -> None:
        self._answer = answer
        self._expectation = expectation
        self._events: list[Event] = []
        self.has_output = False

    @property
    def is_timed(self) -> bool:
        """As the answer has it."""
        return self._answer.is_timed

    def take(self, events: Sequence[Event]) -> None:
        """Hold *events*."""
        for event in events:
            if isinstance(event, BEGINNING):
                self.has_output = True
            if not isinstance(event, Failed):
                self._events.append(event)

    def tick(self, now: float) -> float:
        """What is due to the client is due all the same."""
        return self._answer.tick(now)

    def begin_source(self, source: Source) -> None:
        """The client cannot fall behind: it gets nothing yet."""

    def end_source(self, silence: float | None = None) -> None:
        """When the server said its last is of no use: the client gets all at once."""
        del silence

    @property
    def text(self) -> str:
        """The answer's text, without what was put around demanded JSON."""
        text = "".join(event.text for event in self._events if isinstance(event, ContentDelta))
        return unfenced(text) if self._expectation.schema is not None else text

    @property
    def is_cut(self) -> bool:
        """Whether the answer was cut short or refused, which asking again does not cure.

        Text that grew too long where a call was demanded is no such cut: the call itself is short.
        """
        cuts = ("content_filter",) if self._expectation.calls is not None else ("content_filter", "length")
        return any(
            isinstance(event, RefusalDelta) or (isinstance(event, Finished) and event.reason in cuts)
            for event in self._events
        )

    def unmet(self) -> str | None:
        """Why the answer does not do; None where it does."""
        calls = [event.name for event in self._events if isinstance(event, ToolCallStarted)]
        return self._expectation.unmet(calls, self.text)

    def release(self) -> None:
        """Let the answer out."""
        events = self._events
        self._answer.take(_with_text(events, self.text) if self._expectation.schema is not None else events)


def _with_text(events: list[Event], text: str) -> list[Event]:
    """*events* with *text* in place of their own."""
    replaced: list[Event] = []
    for event in events:
        if not isinstance(event, ContentDelta):
            replaced.append(event)
        elif text:
            replaced.append(ContentDelta(text))
            text = ""
    return replaced
