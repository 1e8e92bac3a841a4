"""A clock that a test moves, and a look at what a test left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.server.transport.raw_server import until


class Clock:
    """The clock of the running loop; `advance` makes its timers due without waiting for them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._real = self._loop.time
        self._ahead = 0.0
        self._loop.time = self.time  # type: ignore[method-assign]

    def time(self) -> float:
        """Seconds."""
        return self._real() + self._ahead

    def advance(self, seconds: float) -> None:
        """Let *seconds* have passed. Awaits that have a limit themselves must not be under way."""
        self._ahead += seconds


@pytest.fixture
async def clock() -> Clock:
    return Clock()


@pytest.fixture
async def leaves_nothing() -> AsyncIterator[None]:
    """Every task that a test started, or made the proxy start, has ended with it."""
    before = asyncio.all_tasks()
    yield
    await until(lambda: asyncio.all_tasks() - {asyncio.current_task()} <= before)
