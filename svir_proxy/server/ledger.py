"""Requests that are over, until they are written up: their line in the log, their place in the counts.

Nobody has to wait for that, but a client's next request often comes at once. And what is done once for each request
runs with cold caches, and costs three times what the second in a row does. So they wait a moment for each other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from svir_proxy.server.request_record import RequestRecord

GATHER: Final = 0.005
"""Seconds that a request waits for others, and that its line may be late."""

_LOGGER: Final = logging.getLogger("svir_proxy")


class Ledger:
    """Has *write* called for each request, in the order of their ends. Made in the running loop."""

    def __init__(self, *write: Callable[[RequestRecord], None]) -> None:
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._over: list[RequestRecord] = []
        self._is_closed = False

    def add(self, record: RequestRecord) -> None:
        """*record* is over; where it failed, and not by what the client asked, all that waits is written up at once."""
        record.ended = time.perf_counter()
        self._over.append(record)
        if record.is_fault or self._is_closed:
            self.settle()
        elif len(self._over) == 1:
            self._loop.call_later(GATHER, self.settle)

    def settle(self) -> None:
        """Write up all that waits."""
        over, self._over = self._over, []
        for record in over:
            for write in self._write:
                try:
                    write(record)
                except Exception:
                    _LOGGER.exception("request %s was not written up", record.id)

    def close(self) -> None:
        """Write up all that waits, and from now on each at once."""
        self._is_closed = True
        self.settle()
