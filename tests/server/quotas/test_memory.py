"""Counting in memory."""

from __future__ import annotations

import asyncio

import pytest

from svir_proxy.server.quotas.bounds import Bound, Counted
from svir_proxy.server.quotas.counters import Demand
from svir_proxy.server.quotas.memory import MemoryCounters

pytestmark = pytest.mark.usefixtures("leaves_nothing")

NOON = 1796040000.0
REQUESTS, TOKENS = Bound("requests", "minute", 3), Bound("tokens", "day", 100)


def demand(account: str = "key:a", at_once: int | None = None, *bounds: Bound) -> Demand:
    return Demand(account, bounds or (REQUESTS, TOKENS), at_once, "lease")


async def test_requests_count_at_once_and_tokens_afterwards_beyond_the_limit_too() -> None:
    counters = MemoryCounters()
    first = await counters.admit(demand(), NOON)
    assert first == (True, 0, (Counted(0, 0), Counted(0, 0)))
    counters.settle(demand(), 250, NOON)
    await counters.close()
    assert await counters.admit(demand(), NOON + 1) == (False, 0, (Counted(1, 0), Counted(250, 0)))
    assert (await counters.admit(demand(), NOON + 1)).counted[0] == (1, 0), "what is refused counts nothing"
    assert (await counters.admit(demand("key:b"), NOON + 1)).taken, "another account"
    assert (await counters.admit(demand(), NOON + 12 * 3600)).taken, "another day"


async def test_the_minute_before_counts_for_less_and_less() -> None:
    counters = MemoryCounters()
    for _ in range(3):
        assert (await counters.admit(demand(), NOON + 59)).taken
    assert not (await counters.admit(demand(), NOON + 59)).taken
    taken = [(await counters.admit(demand(), NOON + 60 + second)).taken for second in range(60)]
    # 3 of the minute before count for 2 at once (59/60 of them), for 1 after 20 s, for none after 40 s
    assert [second for second, let_in in enumerate(taken) if let_in] == [1, 21, 41]


async def test_a_crowd_gets_no_more_than_there_is() -> None:
    counters = MemoryCounters()
    verdicts = await asyncio.gather(*(counters.admit(demand(), NOON) for _ in range(20)))
    assert sum(verdict.taken for verdict in verdicts) == 3


async def test_those_that_run_are_given_back() -> None:
    counters = MemoryCounters()
    one = Demand("key:a", (), 1, "lease")
    assert (await counters.admit(one, NOON)) == (True, 0, ())
    assert (await counters.admit(one, NOON)) == (False, 1, ())
    counters.settle(one, 0, NOON)
    assert (await counters.admit(one, NOON)).taken
    counters.settle(one, 0, NOON)
    await counters.close()
    assert not counters._running, "nothing is kept of who is gone"


def test_it_is_one_process_alone_and_always_there() -> None:
    assert not MemoryCounters.is_shared
    assert not MemoryCounters.is_down
