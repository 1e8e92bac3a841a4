"""Content that repeats the whole text so far in each delta, made increments (DashScope's coding plan).

It cannot be told from the wire ("aa" may be one more "aa" or the text so far), so a profile has to say it.
"""

from __future__ import annotations

import io

from svir_proxy.response.events import ContentDelta, StageEvent
from svir_proxy.response.stages.stage import Sink


class Cumulative:
    """Lets only the new part of each content delta through.

    *limit* bounds the characters of a delta; a text that is longer cannot be repeated, and is forgotten.
    """

    __slots__ = ("_limit", "_said", "_sink", "_size")

    def __init__(self, sink: Sink, limit: int) -> None:
        self._sink = sink
        self._said = io.StringIO()  # no more of it is read than a delta is long: the work is linear in the deltas
        self._size = 0
        self._limit = limit

    def feed(self, event: StageEvent) -> None:
        """Take the next event; a delta that does not repeat the text so far is all new."""
        if type(event) is not ContentDelta or self._size > self._limit:
            self._sink(event)
            return
        self._said.seek(0)
        said = self._said.read(len(event.text))
        new = event.text.removeprefix(said)
        if new:
            self._said.seek(0, io.SEEK_END)
            self._said.write(new)
            self._size += len(new)
            if self._size > self._limit:
                self._said = io.StringIO()
            self._sink(ContentDelta(new))
