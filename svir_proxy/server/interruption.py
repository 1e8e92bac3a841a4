"""A cancellation with a reason of its own, which is told from everybody else's."""

from __future__ import annotations

import asyncio
from typing import Any


class Interruption:
    """Interrupts *task*, which is the present one unless it is named; it asks `is_all` where CancelledError arrives."""

    __slots__ = ("_before", "made", "task")

    def __init__(self, task: asyncio.Task[Any] | None = None) -> None:
        task = task or asyncio.current_task()
        assert task is not None
        self.task = task
        self._before = task.cancelling()
        self.made = False
        """Whether the task was interrupted for this reason."""

    def make(self, _reason: object = None) -> None:
        """Interrupt the task, once."""
        if not self.made:
            self.made = True
            self.task.cancel()

    def is_all(self) -> bool:
        """Take the interruption back: whether nobody else wants the task to end. To be asked once."""
        return self.made and self.task.uncancel() <= self._before
