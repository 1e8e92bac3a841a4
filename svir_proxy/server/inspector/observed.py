"""An exchange that tells an exhibit what goes to the backend and what comes from it."""

from __future__ import annotations

from collections.abc import Mapping

from svir_proxy.client_request import Body, ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.response.events import Event
from svir_proxy.response.normalizer import StreamNormalizer
from svir_proxy.response.upstream_error import ErrorReader
from svir_proxy.server.answer import Answer
from svir_proxy.server.call_memory import CallMemory
from svir_proxy.server.catalog import Route
from svir_proxy.server.exchange import Exchange
from svir_proxy.server.inspector.exhibit import Attempt, Exhibit
from svir_proxy.server.learned import Learned
from svir_proxy.server.reception import Watch
from svir_proxy.server.request_record import RequestRecord
from svir_proxy.server.transport import UpstreamResponse


def observed_exchange(
    request: ClientRequest, route: Route, learned: Learned, calls: CallMemory, record: RequestRecord
) -> Exchange:
    """The exchange with one backend, whose every step the exhibit of *record* is told; traced where *record* is."""
    exhibit = record.exhibit
    assert exhibit is not None
    attempt = exhibit.attempt(route.upstream.name, route.model)
    try:
        if record.trace is None:
            exchange: Exchange = ObservedExchange(request, route, learned, calls)
        else:
            exchange = record.trace.exchange(request, route, learned, calls, ObservedExchange)
    except ProxyError as error:
        attempt.ended(error)
        raise
    assert isinstance(exchange, ObservedExchange)
    exchange.exhibit, exchange.seen = exhibit, attempt
    return exchange


class ObservedExchange(Exchange):
    """As `Exchange`; each time it asks is an attempt of an exhibit."""

    exhibit: Exhibit
    seen: Attempt
    """The attempt under way, or about to be."""

    async def _ask(self, body: Body, answer: Answer, watch: Watch) -> ProxyError | None:
        if self.seen.was_asked:
            self.seen = self.exhibit.attempt(self._upstream.name, self._route.model)
        attempt = self.seen
        attempt.scrub = self._error_reader().scrub
        attempt.asked(self.exhibit.body, body, self.notes, self._profile)
        error = None
        try:
            error = await super()._ask(body, answer, watch)
        finally:
            attempt.ended(error)
        return error

    async def _respond(self, body: Body, watch: Watch) -> UpstreamResponse:
        response = await super()._respond(body, watch)
        media = next((value for name, value in response.headers if name.lower() == b"content-type"), b"")
        self.seen.answered(response.status, media.decode("latin-1"))
        return response

    def _error_reader(self, make: type[ErrorReader] = ErrorReader) -> ErrorReader:
        del make
        errors = super()._error_reader(_ObservedErrors)
        assert isinstance(errors, _ObservedErrors)
        errors.attempt = self.seen
        return errors

    def _normalizer(self, make: type[StreamNormalizer] = StreamNormalizer) -> StreamNormalizer:
        del make
        normalizer = super()._normalizer(_ObservedNormalizer)
        assert isinstance(normalizer, _ObservedNormalizer)
        normalizer.attempt = self.seen
        return normalizer


class _ObservedErrors(ErrorReader):
    __slots__ = ("attempt",)
    attempt: Attempt

    def from_response(self, status: int, headers: Mapping[str, str], body: bytes) -> ProxyError:
        self.attempt.refused(body)
        return super().from_response(status, headers, body)


class _ObservedNormalizer(StreamNormalizer):
    __slots__ = ("attempt",)
    attempt: Attempt

    def receive_data(self, data: bytes) -> list[Event]:
        events = super().receive_data(data)
        self.attempt.read(data, events)
        return events

    def receive_eof(self, clean: bool) -> list[Event]:
        events = super().receive_eof(clean)
        self.attempt.read(b"", events, end=True)
        return events

    def receive_whole(self, body: bytes) -> list[Event]:
        return self.receive_data(body) + self.receive_eof(clean=True)

    def fail(self, error: ProxyError) -> list[Event]:
        events = super().fail(error)
        self.attempt.read(b"", events, end=True)
        return events
