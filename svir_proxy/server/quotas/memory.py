"""Counting in the memory of this process, in the counters of the library ``limits``."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from limits.aio.storage import MemoryStorage

from svir_proxy.server.quotas.bounds import Bound, Counted, Window
from svir_proxy.server.quotas.counters import Demand, Verdict


class MemoryCounters:
    """Counters that are this process's alone, and end with it."""

    is_shared: Final = False
    is_down: Final = False

    def __init__(self) -> None:
        self._storage = MemoryStorage()
        self._running: Counter[str] = Counter()
        self._owed: list[tuple[str, int, int]] = []
        """Tokens that were used and wait to be counted: the counter, how many, seconds that it is kept."""
        self._turn = asyncio.Lock()  # looking and counting are one step, whatever the storage awaits

    async def admit(self, demand: Demand, now: float) -> Verdict:
        """As `Counters.admit`."""
        account, windows = demand.account, demand.windows(now)
        async with self._turn:
            while self._owed:
                key, tokens, kept = self._owed.pop()
                await self._storage.incr(key, kept, tokens)
            counted = [
                await self._counted(account, bound, window)
                for bound, window in zip(demand.bounds, windows, strict=True)
            ]
            verdict = Verdict(True, self._running[account], tuple(counted))
            if not demand.fits(windows, verdict):
                return verdict._replace(taken=False)
            if demand.at_once is not None:
                self._running[account] += 1
            for bound, window in zip(demand.bounds, windows, strict=True):
                if bound.cost:
                    await self._storage.incr(_key(account, bound, window.current), bound.kept, bound.cost)
        return verdict

    def settle(self, demand: Demand, tokens: int, now: float) -> None:
        """As `Counters.settle`; counted when somebody looks next."""
        account = demand.account
        if demand.at_once is not None:
            self._running[account] -= 1
            if not self._running[account]:
                del self._running[account]
        if tokens:
            self._owed += [
                (_key(account, bound, bound.window(now).current), tokens, bound.kept)
                for bound in demand.bounds
                if bound.unit == "tokens"
            ]

    async def close(self) -> None:
        """As `Counters.close`: nothing is held."""

    async def _counted(self, account: str, bound: Bound, window: Window) -> Counted:
        current = await self._storage.get(_key(account, bound, window.current))
        previous = await self._storage.get(_key(account, bound, window.previous)) if window.previous else 0
        return Counted(current, previous)


def _key(account: str, bound: Bound, window: str) -> str:
    return f"{account}/{bound.setting}/{window}"
