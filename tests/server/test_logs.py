"""Log lines for people and for machines, which nobody outside can forge."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from svir_proxy.server.logs import ConsoleFormatter, JsonFormatter, set_up_logging
from svir_proxy.settings import LoggingSettings

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
    found = [logging.getLogger(name) for name in ("svir_proxy", "uvicorn", "uvicorn.error")]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in found]
    found[-1].setLevel(logging.NOTSET)  # servers of other tests leave theirs
    yield found
    for logger, (handlers, level, propagate) in zip(found, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.mark.parametrize("style", ["console", "json"])
def test_logs_go_to_stderr_as_the_settings_say(
    style: Literal["console", "json"], loggers: list[logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    del loggers
    set_up_logging(LoggingSettings(level="error", format=style))
    set_up_logging(LoggingSettings(level="info", format=style))
    assert all(logger.handlers[0].stream is sys.stderr for logger in map(logging.getLogger, ("svir_proxy", "uvicorn")))  # type: ignore[attr-defined]
    logging.getLogger("svir_proxy.requests").info("seen")
    logging.getLogger("svir_proxy.requests").debug("too little")
    logging.getLogger("uvicorn.error").info("of no interest")
    logging.getLogger("uvicorn.error").error("no fault", exc_info=asyncio.CancelledError())
    logging.getLogger("uvicorn.error").warning("of interest")
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 2, "each once"
    assert "seen" in err.splitlines()[0]
    assert all(line.startswith("{") == (style == "json") for line in err.splitlines())
