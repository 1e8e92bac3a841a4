"""One line per request, written after it is over: no prompts, no answers, no keys."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Final

from svir_proxy.errors import ProxyError
from svir_proxy.server.gate import OPEN_PATHS

LOGGER: Final = logging.getLogger("svir_proxy.requests")
_LONGEST: Final = 300
"""Characters of anything that others choose."""


@dataclass(slots=True)
class RequestLog:
    """What is told of one request."""

    id: str
    method: str
    path: str
    key: str | None = None
    model: str = ""
    backend: str = ""
    stream: bool = False
    status: int = 0
    error: ProxyError | None = None
    notes: tuple[str, ...] = ()
    began: float = field(default_factory=time.perf_counter)

    def write(self) -> None:
        """Write the line."""
        # A stream that failed has the status 200; its error has the one that it would have had before.
        worst = self.status if self.error is None else max(self.status, self.error.status)
        level = logging.WARNING if worst >= 500 else logging.DEBUG if self.path in OPEN_PATHS else logging.INFO
        if not LOGGER.isEnabledFor(level):
            return
        path = self.path[:_LONGEST]
        told: dict[str, object] = {
            "request_id": self.id,
            "method": self.method,
            "path": path,
            "status": self.status,
            "ms": round((time.perf_counter() - self.began) * 1000, 1),
        }
        if self.key is not None:
            told["key"] = self.key
        if self.backend:
            told["backend"] = self.backend
            told["model"] = self.model[:_LONGEST]
            told["stream"] = self.stream
        if self.notes:
            told["rewrites"] = ", ".join(self.notes)
        if self.error is not None:
            told |= {"error": self.error.kind, "message": self.error.message[:_LONGEST]}
        LOGGER.handle(_record(level, f"{self.method} {path} {self.status}", told))


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
