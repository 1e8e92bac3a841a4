"""One line per request, written after it is over: no prompts, no answers, no keys."""

from __future__ import annotations

import logging
import time
from typing import Final

from svir_proxy.server.gate import METRICS_PATH, OPEN_PATHS
from svir_proxy.server.logs import REQUESTS, Stderr
from svir_proxy.server.request_record import RequestRecord

LOGGER: Final = logging.getLogger(REQUESTS)
_QUIET: Final = OPEN_PATHS | {METRICS_PATH}
"""What machines ask again and again."""
_LONGEST: Final = 300
"""Characters of anything that others choose."""


def write_line(record: RequestRecord) -> None:
    """Write the line of *record*."""
    level = logging.WARNING if record.is_fault else logging.DEBUG if record.path in _QUIET else logging.INFO
    if not LOGGER.isEnabledFor(level):
        return
    path = record.path[:_LONGEST]
    told: dict[str, object] = {
        "request_id": record.id,
        "method": record.method,
        "path": path,
        "status": record.status,
        "ms": round(record.seconds * 1000, 1),
    }
    if record.trace is not None and record.trace.trace_id:
        told["trace_id"] = record.trace.trace_id
    if record.key is not None:
        told["key"] = record.key
    if record.backend:
        told["backend"] = record.backend
        told["model"] = record.model[:_LONGEST]
        told["stream"] = record.stream
    if record.notes:
        told["rewrites"] = ", ".join(record.notes)
    if record.error is not None:
        told |= {"error": record.error.kind, "message": record.error.message[:_LONGEST]}
    message = f"{record.method} {path} {record.status}"
    if (stderr := _only_stderr()) is not None:
        stderr.tell(level, REQUESTS, message, told)
    else:
        LOGGER.handle(_record(level, message, told))


def _only_stderr() -> Stderr | None:
    """The proxy's own handler, where nobody else hears the lines: it needs no record of them."""
    proxy = LOGGER.parent
    if proxy is None or proxy.propagate or len(proxy.handlers) != 1 or LOGGER.handlers or LOGGER.filters:
        return None
    handler = proxy.handlers[0]
    return handler if type(handler) is Stderr and LOGGER.propagate and not LOGGER.disabled else None


def _template() -> dict[str, object]:
    """What the record of each line has; it comes from here, whatever thread or process."""
    record = logging.LogRecord(LOGGER.name, logging.INFO, __file__, 0, "", (), None, "write")
    nobody = dict.fromkeys(("thread", "threadName", "process", "processName", "taskName"))
    return {**vars(record), **nobody, "told": None}


_TEMPLATE: Final = _template()


def _record(level: int, message: str, told: dict[str, object]) -> logging.LogRecord:
    """What `logging.Logger.log` would make; but that looks for its caller, which costs more than writing the line."""
    record = logging.LogRecord.__new__(logging.LogRecord)
    record.__dict__ = fields = _TEMPLATE.copy()
    fields["levelno"] = level
    fields["levelname"] = logging.getLevelName(level)
    fields["msg"] = message
    fields["created"] = now = time.time()
    fields["msecs"] = now % 1 * 1000
    fields["told"] = told
    return record
