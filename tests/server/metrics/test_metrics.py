"""The numbers of a process and of those beside it: counters never fall, whoever ends and whoever is asked."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from svir_proxy.server.metrics.board import Board
from svir_proxy.server.metrics.metrics import Metrics, Place
from tests.server.metrics.records import record
from tests.server.metrics.test_gauges import generation
from tests.server.support import settings
from tests.server.transport.raw_server import until


@pytest.fixture
def board() -> Iterator[Board]:
    made = Board()
    yield made
    made.close()


async def scraped(metrics: Metrics, name: str) -> float:
    """The sum of all samples of that name."""
    _, body = await metrics.scrape("")
    found = [s for m in text_string_to_metric_families(body.decode()) for s in m.samples if s.name == name]
    return sum(sample.value for sample in found)


def count(metrics: Metrics, times: int = 1, **more: Any) -> None:
    for _ in range(times):
        metrics.count(record(**more), lambda model: model)


def test_nothing_is_loaded_for_it_before_somebody_asks() -> None:
    code = (
        "import sys, svir_proxy.server.app\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('prometheus_client', 'multiprocessing')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_one_process_alone_tells_its_own() -> None:
    metrics = Metrics()
    async with generation(settings()) as one:
        metrics.watch(one)
        count(metrics, 2)
        assert await scraped(metrics, "svir_requests_total") == 2
        assert await scraped(metrics, "svir_workers") == 1
        metrics.forget(one)
    count(metrics)
    assert await scraped(metrics, "svir_requests_total") == 3, "also while it ends"


async def test_whichever_is_asked_tells_the_sum(board: Board) -> None:
    async with generation(settings()) as one, generation(settings()) as other:
        first, second = Metrics(Place(board, 0)), Metrics(Place(board, 1))
        first.watch(one)
        second.watch(other)
        other.live = {record(stream=True)}
        count(first, 2)
        count(second, 3)
        assert await scraped(second, "svir_requests_total") == 3, "it has just begun, and does not know of the first"
        assert await scraped(first, "svir_requests_total") == 5
        assert await scraped(second, "svir_requests_total") == 5
        assert await scraped(first, "svir_open_streams") == 1
        assert await scraped(first, "svir_workers") == 2
        first.forget(one)
        second.forget(other)


async def test_nobody_has_to_ask(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svir_proxy.server.metrics.metrics._INTERVAL", 0.001)
    async with generation(settings()) as one:
        metrics = Metrics(Place(board, 0))
        metrics.watch(one)
        count(metrics)
        await until(lambda: bool(board.counters(0).get("svir_requests")))
        metrics.forget(one)


async def test_what_is_as_it_was_is_not_written_again(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    monkeypatch.setattr(Board, "write", lambda *_: written.append(1))
    async with generation(settings()) as one:
        metrics = Metrics(Place(board, 0))
        metrics.watch(one)
        await scraped(metrics, "svir_workers")
        await scraped(metrics, "svir_workers")
        assert len(written) == 1
        one.live = {record()}
        await scraped(metrics, "svir_workers")
        assert len(written) == 2
        metrics.forget(one)


async def test_who_takes_a_place_goes_on_from_its_counts(board: Board) -> None:
    async with generation(settings()) as one:
        first = Metrics(Place(board, 0))
        first.watch(one)
        count(first, 2)
        told = await scraped(first, "svir_requests_total")
        count(first, 1)
        # It is killed: what it counted since it was last asked is lost, what it has told is not.
        second = Metrics(Place(board, 0))
        second.watch(one)
        assert await scraped(second, "svir_requests_total") == told
        count(second)
        second.forget(one)
        assert await scraped(Metrics(Place(board, 0)), "svir_requests_total") == told + 1, "the last word was written"
        first.forget(one)


async def test_a_generation_in_the_place_of_another_changes_no_count(board: Board) -> None:
    async with generation(settings()) as old, generation(settings()) as new:
        metrics = Metrics(Place(board, 0))
        metrics.watch(old)
        count(metrics)
        metrics.watch(new)
        old.live = {record(stream=True)}
        assert await scraped(metrics, "svir_open_streams") == 1, "those that run end where they began"
        metrics.forget(old)
        assert await scraped(metrics, "svir_open_streams") == 0
        assert await scraped(metrics, "svir_requests_total") == 1
        metrics.forget(new)


async def test_a_board_that_takes_nothing_is_told_once(
    board: Board, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("full")

    caplog.set_level(logging.WARNING, "svir_proxy")
    async with generation(settings()) as one:
        metrics = Metrics(Place(board, 0))
        with monkeypatch.context() as patch:
            patch.setattr(Board, "write", refuse)
            metrics.watch(one)
            await scraped(metrics, "svir_workers")
        assert [line.getMessage() for line in caplog.records] == [
            "the metrics of this worker cannot be shared with the others: full"
        ]
        count(metrics)
        assert await scraped(metrics, "svir_requests_total") == 1, "and goes on when it can"
        metrics.forget(one)
