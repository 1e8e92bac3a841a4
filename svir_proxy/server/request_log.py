"""One line per request, written after it is over: no prompts, no answers, no keys."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Final

from svir_proxy.errors import ProxyError

LOGGER: Final = logging.getLogger("svir_proxy.requests")


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
        level = logging.INFO if self.status < 500 and self.error is None else logging.WARNING
        if not LOGGER.isEnabledFor(level):
            return
        told: dict[str, object] = {
            "request_id": self.id,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "ms": round((time.perf_counter() - self.began) * 1000, 1),
        }
        if self.key is not None:
            told["key"] = self.key
        if self.backend:
            told |= {"backend": self.backend, "model": self.model, "stream": self.stream}
        if self.notes:
            told["rewrites"] = ", ".join(self.notes)
        if self.error is not None:
            told |= {"error": self.error.kind, "message": self.error.message[:300]}
        LOGGER.log(level, "%s %s %s", self.method, self.path, self.status, extra={"told": told})
