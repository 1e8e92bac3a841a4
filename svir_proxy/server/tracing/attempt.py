"""The span of one request to a backend, and the answer as far as the span tells of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from opentelemetry.trace import Span, Status, StatusCode

from svir_proxy.errors import ProxyError
from svir_proxy.response.events import Event, Finished, Identified, UsageReported
from svir_proxy.server.answer import BEGINNING, Answer, InFront
from svir_proxy.server.http import ClientGone
from svir_proxy.server.tracing.conventions import Attributes, cut, of_usage

CANCELLED: Final = "cancelled"
"""What is told of an attempt that nobody waits for any more: the client left, or the proxy was stopped."""


class Attempt:
    """While entered, a backend is asked. Tells in the end what came of it; *headers* go with the request."""

    def __init__(self, span: Span, headers: Mapping[str, str]) -> None:
        self._span = span
        self.headers = headers
        """Those that make the backend's own spans children of this one."""
        self.status = 0
        """Of the response; 0: there was none."""
        self.error: ProxyError | None = None
        self.notes: tuple[str, ...] = ()
        """What was changed in the request."""
        self.identity: Identified | None = None
        self.usage: Mapping[str, Any] | None = None
        self.finish_reason: str | None = None
        self.first_chunk: float | None = None
        """When the first piece of a stream came (`time.perf_counter`)."""
        self.first_output: float | None = None
        """The same of the first output: some servers send a piece before they have read the prompt."""
        self.streamed = False
        self._began = time.perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None) -> None:
        span = self._span
        if span.is_recording():
            span.set_attributes(self._told())
            if isinstance(exc, asyncio.CancelledError | ClientGone):
                span.set_attribute("svir.error", CANCELLED)
            elif exc is not None or self.error is not None:
                # A server's words may repeat the prompt; the log has them.
                said = self.error.kind if self.error is not None else type(exc).__name__
                span.set_attribute("error.type", said)
                span.set_status(Status(StatusCode.ERROR))
        span.end()

    def _told(self) -> Attributes:
        told: Attributes = {} if self.usage is None else of_usage(self.usage)
        if self.status:
            told["http.response.status_code"] = self.status
        if self.notes:
            told["svir.rewrites"] = [cut(note) for note in self.notes]
        if self.identity is not None:
            told["gen_ai.response.id"] = cut(self.identity.id)
            told["gen_ai.response.model"] = cut(self.identity.model)
        if self.finish_reason is not None:
            told["gen_ai.response.finish_reasons"] = [self.finish_reason]
        if self.streamed and self.first_chunk is not None:
            told["gen_ai.response.time_to_first_chunk"] = self.first_chunk - self._began
        if self.streamed and self.first_output is not None:
            told["svir.time_to_first_output"] = self.first_output - self._began
        return told


class TracedAnswer(InFront[Answer]):
    """An answer that an *attempt* looks at on its way into another one."""

    def __init__(self, answer: Answer, attempt: Attempt) -> None:
        super().__init__(answer)
        self._attempt = attempt

    def take(self, events: Sequence[Event]) -> None:
        """Look at *events* and hand them on."""
        attempt = self._attempt
        if attempt.first_chunk is None and events:
            attempt.first_chunk = time.perf_counter()
        if attempt.first_output is None and any(isinstance(event, BEGINNING) for event in events):
            attempt.first_output = time.perf_counter()
        for event in events:
            if isinstance(event, Identified):
                attempt.identity = event
            elif isinstance(event, UsageReported):
                attempt.usage = event.usage
            elif isinstance(event, Finished):
                attempt.finish_reason = event.reason
        self._answer.take(events)
