"""Requests that are over are all written up, in their order: those of a crowd together, a failure at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Final

import httpx
import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.server import ledger as ledger_module
from svir_proxy.server.app import create_app
from svir_proxy.server.ledger import CROWD, Ledger
from svir_proxy.server.logs import REQUESTS
from svir_proxy.server.request_record import RequestRecord
from tests.server.support import CHAT, COMPLETION, living, settings
from tests.server.transport.raw_server import HANG

CHAT_PATH: Final = "/v1/chat/completions"

LATE = ProxyError("upstream_timeout", "late")


def over(names: Iterable[str], ledger: Ledger, live: int = 0) -> None:
    for name in names:
        ledger.add(RequestRecord(name, "POST", "/chat/completions", status=200), live)


async def test_one_alone_is_written_up_in_the_next_turn() -> None:
    written: list[str] = []
    ledger = Ledger(lambda record: written.append(record.id))
    over("a", ledger, live=CROWD - 1)
    assert written == []
    await asyncio.sleep(0)
    assert written == ["a"]


async def test_a_crowd_is_written_up_together() -> None:
    written: list[str] = []
    done = asyncio.Event()
    ledger = Ledger(lambda record: written.append(record.id), lambda _: done.set())
    over("a", ledger, live=CROWD)
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
    over("ab", ledger, live=CROWD)
    ledger.add(failed, CROWD)
    assert written == ["a", "b", "x"]


async def test_whoever_closes_it_loses_none_of_them() -> None:
    written: list[str] = []
    ledger = Ledger(lambda record: written.append(record.id))
    over("ab", ledger, live=CROWD)
    ledger.close()
    assert written == ["a", "b"]
    over("c", ledger, live=CROWD)
    assert written == ["a", "b", "c"]


@pytest.mark.parametrize("by", ["a scrape", "a shutdown", "a signal that ends it without one"])
async def test_a_crowd_in_the_proxy_is_written_up_by(
    by: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "GATHER", 2 * HANG)
    caplog.set_level("INFO", REQUESTS)
    arrived: list[httpx.Request] = []
    everybody = asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        arrived.append(request)
        if len(arrived) > CROWD:
            everybody.set()
        await everybody.wait()
        return httpx.Response(200, json=COMPLETION)

    app = create_app(settings(), httpx.MockTransport(answer))
    lines = [(CHAT_PATH, 200)] * (CROWD + 1)
    async with (
        living(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8484") as client,
    ):
        await asyncio.gather(*(client.post(CHAT_PATH, json=CHAT) for _ in lines))
        await asyncio.sleep(0)
        assert len(caplog.records) < len(lines), "they wait for each other"
        if by == "a scrape":
            scraped = (await client.get("/metrics")).text
            assert re.search(rf'svir_requests_total\{{[^}}]*status="200"[^}}]*\}} {len(lines)}\b', scraped)
        elif by == "a signal that ends it without one":
            app.settle()
        if by != "a shutdown":
            assert said(caplog)[: len(lines)] == lines
    assert said(caplog)[: len(lines)] == lines


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int]]:
    return [(record.told["path"], record.told["status"]) for record in caplog.records]


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
