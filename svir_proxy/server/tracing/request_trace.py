"""The spans of one client request: its own, and one for each attempt with a backend.

The work is done by `Exchange` and `Passing`; what is derived from them here puts each attempt into a span, and sends
the context of that span along.
"""

from __future__ import annotations

from typing import Final

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from svir_proxy.client_request import Body, ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.server.answer import Answer
from svir_proxy.server.call_memory import CallMemory
from svir_proxy.server.catalog import Route
from svir_proxy.server.exchange import Exchange
from svir_proxy.server.learned import Learned
from svir_proxy.server.passing import Passed, PassedAnswer, Passing
from svir_proxy.server.reception import Watch
from svir_proxy.server.request_record import RequestRecord
from svir_proxy.server.tracing.attempt import Attempt, TracedAnswer
from svir_proxy.server.tracing.conventions import Attributes, cut, of_request, operation_of
from svir_proxy.server.transport import UpstreamResponse

PROPAGATOR: Final = TraceContextTextMapPropagator()


class RequestTrace:
    """The spans of one request, of which *span* is the first."""

    def __init__(self, tracer: Tracer, span: Span, path: str) -> None:
        self._tracer = tracer
        self._span = span
        self._operation = operation_of(path)
        self._attempts = 0
        context = span.get_span_context()
        self.trace_id = f"{context.trace_id:032x}" if context.is_valid else ""
        """In hex, as traceparent has it; ``""``: the request has none."""

    def exchange(
        self,
        request: ClientRequest,
        route: Route,
        learned: Learned,
        calls: CallMemory,
        kind: type[Exchange] = Exchange,
    ) -> Exchange:
        """The exchange with one backend, traced; *kind* is what it would be without."""
        return _traced(kind)(request, route, learned, calls, self)

    def passing(self, request: Passed, route: Route) -> Passing:
        """The same for what is passed on."""
        return _TracedPassing(request, route, self)

    def attempt(self, route: Route, model: str, more: Attributes) -> Attempt:
        """An attempt with the backend of *route*, which is asked for *model*; *more* tells what for."""
        upstream = route.upstream
        host, port = upstream.address
        told: Attributes = {
            "gen_ai.operation.name": self._operation,
            "gen_ai.provider.name": upstream.profile.provider or upstream.profile.name,
            "server.address": host,
            "server.port": port,
            "svir.backend": upstream.name,
            **more,
        }
        name = self._operation
        if model:
            told["gen_ai.request.model"] = model = cut(model)
            name = f"{name} {model}"
        if self._attempts:
            told["http.request.resend_count"] = self._attempts
        self._attempts += 1
        parent = set_span_in_context(self._span)
        span = self._tracer.start_span(name, parent, SpanKind.CLIENT, told)
        headers: dict[str, str] = {}
        PROPAGATOR.inject(headers, set_span_in_context(span))
        return Attempt(span, headers)

    def end(self, record: RequestRecord) -> None:
        """The request is over; *record* has what came of it."""
        span = self._span
        if span.is_recording():
            span.set_attributes(_told(record))
            error = record.error
            if record.status >= 500 or (error is not None and error.status >= 500):
                span.set_attribute("error.type", error.kind if error is not None else str(record.status))
                span.set_status(Status(StatusCode.ERROR))
        span.end()


def _told(record: RequestRecord) -> Attributes:
    told: Attributes = {"http.response.status_code": record.status}
    if record.key is not None:
        told["svir.key"] = record.key
    if record.backend:
        told["svir.backend"] = record.backend
    if record.model:
        told["svir.model"] = cut(record.model)
    if record.notes:
        told["svir.rewrites"] = [cut(note) for note in record.notes]
    if record.error is not None:
        told["svir.error"] = record.error.kind
    elif record.status == 499:
        told["svir.error"] = "client_closed"
    return told


class _TracedExchange(Exchange):
    """An exchange whose every attempt is a span."""

    def __init__(
        self, request: ClientRequest, route: Route, learned: Learned, calls: CallMemory, trace: RequestTrace
    ) -> None:
        super().__init__(request, route, learned, calls)
        self._trace = trace
        self._attempt: Attempt | None = None

    def begin(self) -> None:
        """Nothing: the attempt has yet to begin, whose context goes along."""

    async def _ask(self, body: Body, answer: Answer, watch: Watch) -> ProxyError | None:
        model = str(body.get("model") or self._route.model)
        with self._trace.attempt(self._route, model, of_request(body)) as attempt:
            attempt.notes = self.notes
            attempt.streamed = body.get("stream") is True
            self._attempt, self._more = attempt, attempt.headers
            attempt.error = await super()._ask(body, TracedAnswer(answer, attempt), watch)
            return attempt.error

    async def _respond(self, body: Body, watch: Watch) -> UpstreamResponse:
        response = await super()._respond(body, watch)
        assert self._attempt is not None
        self._attempt.status = response.status
        return response


_KINDS: Final[dict[type[Exchange], type[_TracedExchange]]] = {Exchange: _TracedExchange}


def _traced(kind: type[Exchange]) -> type[_TracedExchange]:
    """What is a traced exchange and also of this *kind*."""
    if kind not in _KINDS:
        _KINDS[kind] = type(f"_Traced{kind.__name__}", (_TracedExchange, kind), {})
    return _KINDS[kind]


class _TracedPassing(Passing):
    """A request that is passed on in a span."""

    def __init__(self, request: Passed, route: Route, trace: RequestTrace) -> None:
        super().__init__(request, route)
        self._trace = trace
        self._attempt: Attempt | None = None

    async def run(self, answer: PassedAnswer) -> ProxyError | None:
        """Fill *answer*; the error where it is not whole."""
        model = self._route.model or self.request.upload.model
        with self._trace.attempt(self._route, model, {}) as attempt:
            attempt.notes = self.notes
            self._attempt, self._more = attempt, attempt.headers
            attempt.error = await super().run(answer)
            return attempt.error

    async def _respond(self) -> UpstreamResponse:
        response = await super()._respond()
        assert self._attempt is not None
        self._attempt.status = response.status
        return response
