"""Logs on stderr, for people or for machines. Nothing here ever writes a prompt, an answer or a key.

What clients and servers choose (paths, models, messages) can neither begin a line nor reach the terminal as a control
character.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import sys
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TextIO

import orjson

from svir_proxy.server.log_writer import LineWriter
from svir_proxy.settings import LoggingSettings

REQUESTS: Final = "svir_proxy.requests"
"""The logger of the lines of requests."""


Told = Mapping[str, object]
"""What a line tells beside its message, by name."""


class ConsoleFormatter(logging.Formatter):
    """``12:00:00 INFO POST /v1/chat/completions 200 backend=local ...``."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback below it where there is one."""
        told = getattr(record, "told", None) or {}
        line = self.line(record.created, record.levelname, record.name, record.getMessage(), told)
        if not record.exc_info:
            return line
        traceback = self.formatException(record.exc_info).splitlines()
        return "\n".join((line, *(f"  {_printable(part)}" for part in traceback)))

    def line(self, created: float, level: str, logger: str, message: str, told: Told) -> str:
        """The line of a record without a traceback, for those who have no record."""
        del logger
        line = f"{_clock(int(created))} {level:<7} {_printable(message.rstrip())}"
        for name, value in told.items():
            if name not in _IN_THE_MESSAGE:
                # Letters and digits, as most are, need no second look.
                line += f" {name}={value if type(value) is not str or value.isalnum() else _quoted(value)}"
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``event``, and what is told."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        told = getattr(record, "told", None) or {}
        if record.exc_info:
            told = {**told, "exception": self.formatException(record.exc_info)}
        return self.line(record.created, record.levelname, record.name, record.getMessage(), told)

    def line(self, created: float, level: str, logger: str, message: str, told: Told) -> str:
        """The line of a record, for those who have none."""
        second = int(created)
        said = {
            "time": f"{_moment(second)}.{int((created - second) * 1000):03d}Z",
            "level": level.lower(),
            "logger": logger,
            "event": message,
            **told,
        }
        try:
            return orjson.dumps(said, default=str).decode()
        except TypeError:  # lone surrogates
            return json.dumps(said, default=str)


def set_up_logging(settings: LoggingSettings) -> None:
    """Send the proxy's logs, and uvicorn's, to stderr as *settings* say. Lines are written a moment later."""
    formatter = JsonFormatter() if settings.format == "json" else ConsoleFormatter()
    handler = Stderr(_writer(sys.stderr, formatter), formatter)
    level = settings.level.upper()
    for name, least in (("svir_proxy", level), ("uvicorn", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(least)
        logger.propagate = False


def flush_logs() -> None:
    """Wait until all lines are written, as long as stderr takes any."""
    if _WRITERS:
        _WRITERS[-1].flush()


def lines_dropped() -> int:
    """Lines of this process that were left out since stderr took none."""
    return sum(writer.dropped for writer in _WRITERS)


class Stderr(logging.Handler):
    """Has lines written to stderr, by *writer*."""

    def __init__(self, writer: LineWriter, formatter: ConsoleFormatter | JsonFormatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._line = formatter.line
        self._put = writer.put

    def handle(self, record: logging.LogRecord) -> bool:
        """Have *record* written, unless it is a cancellation."""
        if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
            return False  # a second Ctrl+C ends uvicorn's own tasks too, which it reports as their fault
        urgent = record.levelno >= logging.WARNING
        # Made at once, and not in the writer's thread: two that run Python wait for each other at each system call,
        # which costs a request three times what its line does.
        try:
            text = self.format(record)
        except Exception as exc:  # noqa: BLE001 - a request must not fail for a line that cannot be told
            text = f"a line of the log cannot be told: {exc!r}"
        self._put(text, urgent=urgent)
        return True

    def tell(self, level: int, logger: str, message: str, told: Told) -> None:
        """Have a line written as `handle` would, without a record of it."""
        try:
            text = self._line(time.time(), _LEVELS[level], logger, message, told)
        except Exception as exc:  # noqa: BLE001 - see `handle`
            text = f"a line of the log cannot be told: {exc!r}"
        self._put(text, urgent=level >= logging.WARNING)


_WRITERS: Final[list[LineWriter]] = []
"""The last one is stderr's. There are others only where stderr was something else before."""


def _writer(stream: TextIO, formatter: logging.Formatter) -> LineWriter:
    """What writes to *stream*: one for each, whatever is set up anew."""

    def tell_gap(dropped: int) -> str:
        text = "lines of the log were left out here: stderr took none"
        return formatter.format(logging.LogRecord("svir_proxy", logging.WARNING, "", 0, f"{dropped} {text}", (), None))

    if _WRITERS and _WRITERS[-1].stream is stream:
        _WRITERS[-1].tell_gap = tell_gap
        return _WRITERS[-1]
    if not _WRITERS:
        atexit.register(flush_logs)
    _WRITERS.append(LineWriter(stream, tell_gap))
    return _WRITERS[-1]


_LEVELS: Final = {level: logging.getLevelName(level) for level in (logging.DEBUG, logging.INFO, logging.WARNING)}
_IN_THE_MESSAGE: Final = frozenset({"method", "path", "status"})


@lru_cache(maxsize=2)
def _clock(second: int) -> str:
    """The time of day here; the lines of a second share it."""
    return time.strftime("%H:%M:%S", time.localtime(second))


@lru_cache(maxsize=2)
def _moment(second: int) -> str:
    """The day and the time in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def _quoted(text: str) -> str:
    return text if text and " " not in text and text.isprintable() else repr(text)


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
