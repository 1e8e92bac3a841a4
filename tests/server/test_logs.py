"""Log lines for people and for machines, which nobody outside can forge."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from svir_proxy.server.logs import ConsoleFormatter, JsonFormatter, flush_logs, lines_dropped, set_up_logging
from svir_proxy.settings import LoggingSettings
from tests.support.logs import logs_as_at_first

NASTY = "a\n12:00:00 INFO    forged\r\x1b[2J\u202e\x00\u2028é"
_CLOCK = r"\d\d:\d\d:\d\d"


def record(message: str, exception: BaseException | None = None, **told: Any) -> logging.LogRecord:
    info = (type(exception), exception, exception.__traceback__) if exception else None
    made = logging.LogRecord("svir_proxy.requests", logging.INFO, "file", 1, "%s", (message,), info)
    if told:
        made.told = told
    return made


def raised(text: str) -> BaseException:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the text is the point
        raise ValueError(text)
    return caught.value


def is_harmless(line: str) -> bool:
    return line.isprintable() and "\x1b" not in line


def test_a_line_for_people() -> None:
    line = ConsoleFormatter().format(
        record("GET /models 200", method="GET", path="/models", status=200, key="ana", rewrites="a, b", model="")
    )
    assert re.fullmatch(_CLOCK + r" INFO    GET /models 200 key=ana rewrites='a, b' model=''", line)


def test_a_line_for_machines() -> None:
    line = JsonFormatter().format(record("GET /models 200", status=200, key="ana", odd={1}))
    told = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told.pop("time"))
    assert told == {
        "level": "info",
        "logger": "svir_proxy.requests",
        "event": "GET /models 200",
        "status": 200,
        "key": "ana",
        "odd": "{1}",
    }


def test_each_line_has_the_time_of_its_own_record() -> None:
    times = []
    for created in (1_700_000_000.25, 1_700_000_000.75, 1_700_000_001.0, 1_700_000_000.5, 1_700_086_400.0):
        made = record("seen")
        made.created, made.msecs = created, created % 1 * 1000
        clock = time.strftime("%H:%M:%S", time.localtime(created))
        assert ConsoleFormatter().format(made).startswith(f"{clock} INFO")
        times.append(json.loads(JsonFormatter().format(made))["time"])
    assert times == [
        "2023-11-14T22:13:20.250Z",
        "2023-11-14T22:13:20.750Z",
        "2023-11-14T22:13:21.000Z",
        "2023-11-14T22:13:20.500Z",
        "2023-11-15T22:13:20.000Z",
    ]


def test_nobody_forges_a_line_for_people() -> None:
    lines = ConsoleFormatter().format(record(f"GET /{NASTY} 404", model=NASTY)).split("\n")
    assert len(lines) == 1
    assert is_harmless(lines[0])
    assert lines[0].count("é") == 2, "letters stay"


def test_nobody_forges_one_in_a_traceback() -> None:
    first, *rest = ConsoleFormatter().format(record("failed\n", raised(NASTY))).splitlines()
    assert re.fullmatch(_CLOCK + r" INFO    failed", first)
    assert rest[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") and is_harmless(line) for line in rest)


@pytest.mark.parametrize("text", [NASTY, "half \ud83d"])
def test_nobody_forges_a_line_for_machines(text: str) -> None:
    line = JsonFormatter().format(record(text, raised(text), model=text))
    assert "\n" not in line
    assert "\x1b" not in line
    told = json.loads(line)
    assert (told["event"], told["model"]) == (text, text)
    assert "ValueError" in told["exception"]


@pytest.fixture
def loggers() -> Iterator[list[logging.Logger]]:
    with logs_as_at_first() as found:
        yield found


@pytest.mark.parametrize("style", ["console", "json"])
def test_logs_go_to_stderr_as_the_settings_say(
    style: Literal["console", "json"], loggers: list[logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    del loggers
    set_up_logging(LoggingSettings(level="error", format=style))
    set_up_logging(LoggingSettings(level="info", format=style))
    assert logging.getLogger("svir_proxy").handlers == logging.getLogger("uvicorn").handlers
    logging.getLogger("svir_proxy.requests").info("seen")
    logging.getLogger("svir_proxy.requests").debug("too little")
    logging.getLogger("uvicorn.error").info("of no interest")
    logging.getLogger("uvicorn.error").error("no fault", exc_info=asyncio.CancelledError())
    logging.getLogger("uvicorn.error").warning("of interest")
    flush_logs()
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 2, "each once"
    assert "seen" in err.splitlines()[0]
    assert all(line.startswith("{") == (style == "json") for line in err.splitlines())


def test_lines_stand_in_the_order_they_came_in(
    loggers: list[logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    del loggers
    set_up_logging(LoggingSettings())
    for number in range(300):
        name = ("svir_proxy.requests", "svir_proxy", "uvicorn.error")[number % 3]
        logging.getLogger(name).warning("line %d", number)
    flush_logs()
    assert re.findall(r"line (\d+)", capsys.readouterr().err) == [str(number) for number in range(300)]


def test_what_a_line_tells_may_change_afterwards(
    loggers: list[logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    del loggers
    set_up_logging(LoggingSettings())
    told = ["before"]
    logging.getLogger("svir_proxy").warning("%s", told)
    told[0] = "after"
    flush_logs()
    assert "before" in capsys.readouterr().err


def test_a_line_that_cannot_be_told_ends_nothing(
    loggers: list[logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    del loggers
    set_up_logging(LoggingSettings())
    logging.getLogger("svir_proxy").warning("%d", "no number")
    logging.getLogger("svir_proxy").warning("the next")
    flush_logs()
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("a line of the log cannot be told: TypeError(")
    assert second.endswith("the next")


def test_what_was_left_out_is_told_in_the_form_of_the_log(
    loggers: list[logging.Logger], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del loggers
    monkeypatch.setattr("svir_proxy.server.log_writer.LIMIT", 0)
    before = lines_dropped()
    set_up_logging(LoggingSettings(format="json"))
    writer = logging.getLogger("svir_proxy").handlers[0]._put.__self__  # type: ignore[attr-defined]
    writer._limit = 10
    logging.getLogger("svir_proxy").info("much too long")
    assert lines_dropped() == before + 1
    writer._limit = 10_000
    logging.getLogger("svir_proxy").info("seen")
    flush_logs()
    gap, seen = map(json.loads, capsys.readouterr().err.splitlines())
    assert (seen["event"], seen["level"]) == ("seen", "info")
    assert (gap["event"], gap["level"]) == ("1 lines of the log were left out here: stderr took none", "warning")
