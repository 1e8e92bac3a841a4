"""One browser that looks on: messages go to it as fast as it takes them, and no stream ever waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

_MOST: Final = 2 * 2**20
"""Bytes that wait for a viewer; one that is further behind is told so, and begins anew."""
HEARTBEAT: Final = b": still here\n\n"


class Feed:
    """The messages of one viewer, as server-sent events."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._news = asyncio.Event()
        self.is_behind = False
        """Whether messages were dropped: what the viewer has is no longer right."""
        self.is_over = False

    def put(self, message: bytes) -> None:
        """*message* is next; dropped with all that wait where it would be too much."""
        if self.is_behind or self.is_over:
            return
        self._waiting.append(message)
        self._size += len(message)
        if self._size > _MOST:
            self.is_behind = True
            self._waiting.clear()
            self._size = 0
        self._news.set()

    def end(self) -> None:
        """Nothing more comes."""
        self.is_over = True
        self._news.set()

    def catch_up(self) -> None:
        """The viewer is about to be given everything anew."""
        self.is_behind = False

    async def take(self, seconds: float) -> bytes | None:
        """All that waits; a heartbeat where nothing comes for so many *seconds*; None at the end, or when behind."""
        if not (self._news.is_set() or self.is_over):
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                return HEARTBEAT
        self._news.clear()
        if self.is_over or self.is_behind:
            return None
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        return data


def message(event: str, data: bytes) -> bytes:
    """A server-sent event; *data* is JSON on one line."""
    return b"event: %b\ndata: %b\n\n" % (event.encode(), data)
