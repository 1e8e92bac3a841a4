"""Requests that are over are all written up, in their order: those of a crowd together, a failure at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.server.ledger import CROWD, Ledger
from svir_proxy.server.request_record import RequestRecord
from tests.server.transport.raw_server import HANG

LATE = ProxyError("upstream_timeout", "late")


def over(names: Iterable[str], ledger: Ledger, others: int = 0) -> None:
    for name in names:
        ledger.add(RequestRecord(name, "POST", "/chat/completions", status=200), others)


async def test_one_alone_is_written_up_in_the_next_turn() -> None:
    written: list[str] = []
    ledger = Ledger(lambda record: written.append(record.id))
    over("a", ledger, others=CROWD - 1)
    assert written == []
    await asyncio.sleep(0)
    assert written == ["a"]


async def test_a_crowd_is_written_up_together() -> None:
    written: list[str] = []
    done = asyncio.Event()
    ledger = Ledger(lambda record: written.append(record.id), lambda _: done.set())
    over("a", ledger, others=CROWD)
    await asyncio.sleep(0)
    over("bc", ledger)
    await asyncio.sleep(0)
    assert written == []
    await asyncio.wait_for(done.wait(), HANG)
    assert written == ["a", "b", "c"]
    over("d", ledger)
    await asyncio.sleep(0)
    assert written == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "failed",
    [
        RequestRecord("x", "POST", "/chat/completions", status=500),
        RequestRecord("x", "POST", "/chat/completions", status=200, error=LATE),
    ],
)
async def test_a_failure_is_written_up_at_once_and_all_that_came_before(failed: RequestRecord) -> None:
    written: list[str] = []
    ledger = Ledger(lambda record: written.append(record.id))
    over("ab", ledger, others=CROWD)
    ledger.add(failed, CROWD)
    assert written == ["a", "b", "x"]


async def test_whoever_closes_it_loses_none_of_them() -> None:
    written: list[str] = []
    ledger = Ledger(lambda record: written.append(record.id))
    over("ab", ledger, others=CROWD)
    ledger.close()
    assert written == ["a", "b"]
    over("c", ledger, others=CROWD)
    assert written == ["a", "b", "c"]


async def test_a_line_that_cannot_be_written_costs_neither_the_count_nor_other_lines() -> None:
    written: list[str] = []

    def fail(record: RequestRecord) -> None:
        raise OSError(record.id)

    ledger = Ledger(fail, lambda record: written.append(record.id))
    over("ab", ledger)
    ledger.settle()
    assert written == ["a", "b"]


async def test_the_time_of_a_request_ends_with_it() -> None:
    record = RequestRecord("a", "GET", "/models")
    record.began -= 2
    assert record.seconds >= 2
    Ledger().add(record, CROWD)
    assert record.ended is not None
    assert record.seconds == record.ended - record.began
