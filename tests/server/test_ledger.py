"""Requests that are over are all written up, in their order and together; a failure at once."""

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
from svir_proxy.server.ledger import Ledger
from svir_proxy.server.logs import REQUESTS
from svir_proxy.server.request_record import RequestRecord
from tests.server.support import CHAT, COMPLETION, living, settings
from tests.server.transport.raw_server import HANG

CHAT_PATH: Final = "/v1/chat/completions"

LATE = ProxyError("upstream_timeout", "late")


def over(names: Iterable[str], ledger: Ledger) -> None:
    for name in names:
        ledger.add(RequestRecord(name, "POST", "/chat/completions", status=200))


async def test_what_ends_within_a_moment_is_written_up_together() -> None:
    written: list[str] = []
    done = asyncio.Event()
    ledger = Ledger(lambda record: written.append(record.id), lambda record: record.id == "c" and done.set())
    over("a", ledger)
    await asyncio.sleep(0)
    over("bc", ledger)
    await asyncio.sleep(0)
    assert written == [], "whoever asks next need not wait for it"
    await asyncio.wait_for(done.wait(), HANG)
    assert written == ["a", "b", "c"]


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
    over("ab", ledger)
    ledger.add(failed)
    assert written == ["a", "b", "x"]


async def test_whoever_closes_it_loses_none_of_them() -> None:
    written: list[str] = []
    ledger = Ledger(lambda record: written.append(record.id))
    over("ab", ledger)
    ledger.close()
    assert written == ["a", "b"]
    over("c", ledger)
    assert written == ["a", "b", "c"]


@pytest.mark.parametrize("by", ["a scrape", "a shutdown", "a signal that ends it without one"])
async def test_what_waits_in_the_proxy_is_written_up_by(
    by: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "GATHER", 2 * HANG)
    caplog.set_level("INFO", REQUESTS)
    app = create_app(settings(), httpx.MockTransport(lambda _: httpx.Response(200, json=COMPLETION)))
    lines = [(CHAT_PATH, 200)] * 3
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
    Ledger().add(record)
    assert record.ended is not None
    assert record.seconds == record.ended - record.began
