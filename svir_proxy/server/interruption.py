"""A cancellation with a reason of its own, which is told from everybody else's."""

from __future__ import annotations

import asyncio


class Interruption:
    """Interrupts the task that made it. Made in that task, which asks `is_all` where CancelledError arrives."""

    __slots__ = ("_before", "_task", "made")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._before = task.cancelling()
        self.made = False
        """Whether the task was interrupted for this reason."""

    def make(self) -> None:
        """Interrupt the task, once."""
        if not self.made:
            self.made = True
            self._task.cancel()

    def is_all(self) -> bool:
        """Take the interruption back: whether nobody else wants the task to end. To be asked once."""
        return self.made and self._task.uncancel() <= self._before
