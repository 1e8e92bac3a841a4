"""What is sent at the end of the loop's turn, all together.

Whoever receives sleeps until something comes, and waking it is most of the price of a small write. What leaves one
right after the other wakes it once. So requests, and whole answers, wait for the rest of the turn in which they were
made; pieces of a stream do not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

_LOGGER: Final = logging.getLogger("svir_proxy")


class Loop(Protocol):
    """What an outbox needs of an event loop."""

    def call_soon(self, callback: Callable[[], object], /) -> object:
        """Call *callback* in the next turn."""


class Sender(Protocol):
    """Who has something to send."""

    def release(self) -> None:
        """Send it."""


class Outbox:
    """Those who have something to send at the end of this turn.

    Nobody waits for company that does not come: where the one before was alone in its turn, the first of a turn sends
    at once.
    """

    __slots__ = ("_came", "_is_lonely", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[Sender] = []
        self._came = 0  # in this turn
        self._is_lonely = True

    def delays(self, sender: Sender, loop: Loop) -> bool:
        """Whether *sender* sends at the end of this turn of *loop*, when it is told to; else it does so now, by itself.

        The *loop* is the same each time.
        """
        self._came += 1
        if self._came == 1:
            loop.call_soon(self._flush)
            if self._is_lonely:
                return False
        self._waiting.append(sender)
        return True

    def _flush(self) -> None:
        self._is_lonely, self._came = self._came == 1, 0
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for sender in waiting:
                try:
                    sender.release()
                except Exception:
                    _LOGGER.exception("what was to be sent at the end of the turn was not")
