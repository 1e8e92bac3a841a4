"""The collector that takes the spans, and one line in the log when it does not, and when it does again."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from svir_proxy.settings import TracingSettings

_LOGGER: Final = logging.getLogger("svir_proxy")
_STATUS: Final = re.compile(r"code: (\d+)")
_FULL: Final = "Queue full"
_FULL_SECONDS: Final = 60.0
"""How long nothing more is said of a full queue."""


class _Words(logging.Handler):
    """What OpenTelemetry's own code says, line by line for as long as a collector is away: kept, not written.

    It names URLs with all that is in them, and has no other way to tell why spans did not go.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""
        self._full_until = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message of *record*; that the queue is full is told, now and then."""
        self.last = record.getMessage()
        if self.last.startswith(_FULL) and record.created >= self._full_until:
            self._full_until = record.created + _FULL_SECONDS
            _LOGGER.warning("traces come faster than the collector takes them: some are lost (OTEL_BSP_MAX_QUEUE_SIZE)")


_WORDS: Final = _Words()


class Collector(SpanExporter):
    """Exports spans from a thread of its own, which may wait."""

    def __init__(self, settings: TracingSettings) -> None:
        logger = logging.getLogger("opentelemetry")
        logger.handlers, logger.propagate = [_WORDS], False
        headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
        self._exporter = OTLPSpanExporter(endpoint=settings.endpoint, headers=headers)
        self._where = _place(self._exporter._endpoint)  # noqa: SLF001 - it alone knows what the variables come to
        self._takes = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send *spans*; those that are not taken within some tries are lost."""
        _WORDS.last = ""
        result = self._exporter.export(spans)
        takes = result is SpanExportResult.SUCCESS
        if takes != self._takes:
            self._takes = takes
            if takes:
                _LOGGER.info("traces reach the collector at %s", self._where)
            else:
                _LOGGER.warning(
                    "traces do not reach the collector at %s (%s): those of the meantime are lost", self._where, _why()
                )
        return result

    def give_up(self) -> None:
        """Send nothing any more: there is no time."""
        _LOGGER.warning("the last traces did not reach the collector at %s in time", self._where)
        self._exporter.shutdown()  # type: ignore[no-untyped-call] # as the package has it

    def shutdown(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call] # as the package has it

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is held back here."""
        return self._exporter.force_flush(timeout_millis)


def _why() -> str:
    status = _STATUS.search(_WORDS.last)
    return f"it answers {status[1]}" if status else "it does not answer"


def _place(url: str) -> str:
    """*url* without what could be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
