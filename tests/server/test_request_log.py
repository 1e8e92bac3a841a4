"""One line a request: what it tells, how loudly, and what it never tells."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.server.logs import ConsoleFormatter, flush_logs, set_up_logging
from svir_proxy.server.request_log import write_line
from svir_proxy.server.request_record import RequestRecord
from svir_proxy.settings import LoggingSettings

BAD = ProxyError("invalid_request", "no")
LATE = ProxyError("upstream_timeout", "late " * 100)


def written(caplog: pytest.LogCaptureFixture, log: RequestRecord, level: int = logging.INFO) -> list[Any]:
    caplog.set_level(level, "svir_proxy.requests")
    write_line(log)
    return caplog.records


@pytest.mark.parametrize(
    ("status", "error", "level"),
    [
        (200, None, logging.INFO),
        (404, BAD, logging.INFO),
        (499, None, logging.INFO),
        (500, None, logging.WARNING),
        (504, LATE, logging.WARNING),
        (200, LATE, logging.WARNING),  # a stream that failed after it had begun
        (200, BAD, logging.INFO),
    ],
)
def test_only_what_an_operator_should_see_is_a_warning(
    status: int, error: ProxyError | None, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    (record,) = written(caplog, RequestRecord("r", "GET", "/models", status=status, error=error))
    assert record.levelno == level
    assert record.getMessage() == f"GET /models {status}"


def test_a_probe_that_is_answered_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    assert written(caplog, RequestRecord("r", "GET", "/healthz", status=200)) == []
    (record,) = written(caplog, RequestRecord("r", "GET", "/readyz", status=503))
    assert record.levelno == logging.WARNING


def test_what_is_told(caplog: pytest.LogCaptureFixture) -> None:
    plain, full = RequestRecord("r", "GET", "/models", status=200), RequestRecord("r", "POST", "/chat/completions")
    full.key, full.model, full.backend, full.stream, full.status = "ana", "m", "local", True, 200
    full.notes, full.error = ("a=b", "c=d"), LATE
    written(caplog, plain)
    records = written(caplog, full)
    told = [{name: value for name, value in record.told.items() if name != "ms"} for record in records]
    assert told == [
        {"request_id": "r", "method": "GET", "path": "/models", "status": 200},
        {
            "request_id": "r",
            "method": "POST",
            "path": "/chat/completions",
            "status": 200,
            "key": "ana",
            "backend": "local",
            "model": "m",
            "stream": True,
            "rewrites": "a=b, c=d",
            "error": "upstream_timeout",
            "message": LATE.message[:300],
        },
    ]
    assert all(record.told["ms"] >= 0 for record in records)


def test_what_others_choose_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    (record,) = written(caplog, RequestRecord("r", "GET", "/" + "x" * 5000, model="y" * 5000, backend="b", status=404))
    assert len(record.getMessage()) < 320
    assert len(record.told["path"]) == len(record.told["model"]) == 300


def test_nothing_is_made_of_a_line_that_nobody_wants(caplog: pytest.LogCaptureFixture) -> None:
    assert written(caplog, RequestRecord("r", "GET", "/", status=200), logging.WARNING) == []


def test_a_record_has_all_that_a_formatter_may_ask_for(caplog: pytest.LogCaptureFixture) -> None:
    before = time.time()
    (record,) = written(caplog, RequestRecord("r", "GET", "/%s", status=500))
    usual = logging.getLogger(record.name).makeRecord(record.name, logging.WARNING, "", 0, "", (), None)
    assert vars(record).keys() >= vars(usual).keys()
    assert (record.levelname, record.getMessage()) == ("WARNING", "GET /%s 500")
    assert before <= record.created <= time.time()
    assert record.msecs == pytest.approx(record.created % 1 * 1000)
    (_, other) = written(caplog, RequestRecord("r", "GET", "/models", status=200))
    assert (record.told["status"], other.told["status"]) == (500, 200), "each has its own"
    assert logging.Formatter("%(asctime)s %(filename)s %(process)s %(threadName)s").format(other)


@pytest.fixture
def loggers() -> Iterator[logging.Logger]:
    found = [logging.getLogger(name) for name in ("svir_proxy", "uvicorn")]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in found]
    yield logging.getLogger("svir_proxy.requests")
    for logger, (handlers, level, propagate) in zip(found, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.mark.parametrize("style", ["console", "json"])
def test_a_line_is_the_same_with_and_without_a_record(
    style: Literal["console", "json"],
    loggers: logging.Logger,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.125)
    monkeypatch.setattr(time, "perf_counter", lambda: 2.0)
    set_up_logging(LoggingSettings(format=style))
    odd = RequestRecord("r", "POST", "/a b\n%s", model="half \ud83d", backend="b", stream=True, status=200, error=LATE)
    requests = [RequestRecord("r", "GET", "/models", status=200), odd, RequestRecord("r", "GET", "", status=500)]
    for record in requests:
        record.notes = ("a=b",)
        write_line(record)
    flush_logs()
    alone = capsys.readouterr().err
    other = logging.NullHandler()
    loggers.addHandler(other)
    try:
        for record in requests:
            write_line(record)
    finally:
        loggers.removeHandler(other)
    flush_logs()
    assert capsys.readouterr().err == alone
    assert len(alone.splitlines()) == len(requests)


def test_a_line_that_cannot_be_told_ends_no_request(
    loggers: logging.Logger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del loggers

    def fail(*_: object) -> str:
        raise ValueError("odd")

    monkeypatch.setattr(ConsoleFormatter, "line", fail)
    set_up_logging(LoggingSettings())
    write_line(RequestRecord("r", "GET", "/models", status=200))
    flush_logs()
    assert capsys.readouterr().err == "a line of the log cannot be told: ValueError('odd')\n"
