"""Content that repeats the whole text so far in each delta, made increments (DashScope's coding plan).

It cannot be told from the wire ("aa" may be one more "aa" or the text so far), so a profile has to say it.
"""

from __future__ import annotations

from svir_proxy.response.events import ContentDelta, StageEvent
from svir_proxy.response.stages.stage import Sink


class Cumulative:
    """Lets only the new part of each content delta through."""

    __slots__ = ("_sink", "_text")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._text = ""

    def feed(self, event: StageEvent) -> None:
        """Take the next event; a delta that does not repeat the text so far is all new."""
        if not isinstance(event, ContentDelta):
            self._sink(event)
        elif event.text.startswith(self._text):
            new, self._text = event.text[len(self._text) :], event.text
            if new:
                self._sink(ContentDelta(new))
        elif not self._text.startswith(event.text):
            self._text += event.text
            self._sink(event)
