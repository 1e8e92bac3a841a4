"""A backend's places: so many requests at a time, so many more in line, and the rest is told to come back.

Model servers that take everything slow down for everybody, or fall over; some refuse what they cannot do at once. A
line in front of them that is short and fair is worth more than one of their own without end.
"""

from __future__ import annotations

import asyncio
from typing import Self

from svir_proxy.errors import ProxyError


class Places:
    """*requests* may be at the backend at a time and *waiting* more in line, each for *seconds* at most.

    As a context manager: enter to have a place, in the order of asking. Raises ProxyError, kind ``overloaded``, at once
    where the line is full, and after *seconds* in it.
    """

    def __init__(self, backend: str, requests: int, waiting: int, seconds: float) -> None:
        self._backend = backend
        self.requests = requests
        """How many there are."""
        self._waiting = waiting
        self._seconds = seconds
        self._line: dict[asyncio.Future[None], None] = {}  # in order, and left in one step from anywhere
        self.taken = 0
        """How many places are taken."""

    @property
    def is_full(self) -> bool:
        """Whether the next one has to wait."""
        return self.taken >= self.requests

    @property
    def waiting(self) -> int:
        """How many are in line."""
        return len(self._line)

    async def __aenter__(self) -> Self:
        if self.taken < self.requests:
            self.taken += 1
            return self
        if len(self._line) >= self._waiting:
            raise ProxyError(
                "overloaded",
                f"Backend {self._backend!r} has {self.taken} requests and {len(self._line)} wait for it"
                " (max_requests, max_waiting of the backend).",
                retry_after=1,
            )
        turn = asyncio.get_running_loop().create_future()
        self._line[turn] = None
        timer = turn.get_loop().call_later(self._seconds, turn.cancel)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._leave()  # the place came in the same moment
                raise
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise ProxyError(
                "overloaded",
                f"Backend {self._backend!r} had no place free for {self._seconds:g} s (timeouts.queue of the backend).",
                retry_after=1,
            ) from None
        finally:
            timer.cancel()
            self._line.pop(turn, None)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        """Hand the place to the next in line."""
        while self._line:
            turn = next(iter(self._line))
            del self._line[turn]
            if not turn.done():
                turn.set_result(None)
                return
        self.taken -= 1
