"""The numbers of this process, and of all that serve beside it. Lives as long as the process, whatever is reloaded."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from svir_proxy.server.logs import lines_dropped
from svir_proxy.server.metrics import families
from svir_proxy.server.metrics.board import Board
from svir_proxy.server.metrics.exposition import render
from svir_proxy.server.metrics.gauges import Watched, read_gauges
from svir_proxy.server.metrics.tally import Tally
from svir_proxy.server.metrics.values import Values, add

_LOGGER: Final = logging.getLogger("svir_proxy")
_INTERVAL: Final = 1.0
"""Seconds between two looks whether the board has to be written anew."""


class Place(NamedTuple):
    """A worker's place among the others."""

    board: Board
    slot: int


class Metrics:
    """Counts requests, and tells the numbers. *place*: where those of all workers come together; None: there is one.

    Those of the worker that had the place before are gone on from: counters never fall.
    """

    def __init__(self, place: Place | None = None) -> None:
        self._place = place
        before = None if place is None else place.board.counters(place.slot)
        self._tally = Tally(before)
        self.count = self._tally.count
        """Counts a request that is over."""
        self._generations: list[Watched] = []
        self._timer: asyncio.TimerHandle | None = None
        self._written: tuple[int, int, Values] | None = None
        self._failed = False

    def watch(self, generation: Watched) -> None:
        """Read the gauges of *generation*, too, which is the newest. To be called in the running loop."""
        self._generations.append(generation)
        if self._place is not None and self._timer is None:
            self._look()

    def forget(self, generation: Watched) -> None:
        """*generation* has ended."""
        self._generations.remove(generation)
        if not self._generations and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._write()  # the last word; what comes in its place goes on from it

    async def scrape(self, accept: str) -> tuple[str, bytes]:
        """The numbers of all workers, as the header *accept* wants them: content type and body."""
        for generation in self._generations:
            generation.settle()
        if self._place is None:
            counters, gauges = self._counters(), self._gauges()
        else:
            self._write()  # whatever is told once is on the board, and is not lost with this process
            counters, gauges = await asyncio.to_thread(self._place.board.read)
        return await asyncio.to_thread(render, {**counters, **gauges}, accept)

    def _counters(self) -> Values:
        values = self._tally.values()
        add(values, families.LOG_LINES_DROPPED, (), lines_dropped())
        return values

    def _gauges(self) -> Values:
        values = read_gauges(self._generations, asyncio.get_running_loop().time())
        add(values, families.WORKERS, (), 1)
        return values

    def _look(self) -> None:
        self._write()
        self._timer = asyncio.get_running_loop().call_later(_INTERVAL, self._look)

    def _write(self) -> None:
        """Write the board, where anything is other than it says."""
        assert self._place is not None
        state = (self._tally.requests, lines_dropped(), self._gauges())
        if state == self._written:
            return
        try:
            self._place.board.write(self._place.slot, self._counters(), state[2])
        except OSError as exc:
            if not self._failed:
                _LOGGER.warning("the metrics of this worker cannot be shared with the others: %s", exc)
            self._failed = True
        else:
            self._written, self._failed = state, False
