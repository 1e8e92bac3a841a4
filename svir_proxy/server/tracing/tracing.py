"""Where the spans of a process go: to a collector, in the background, for as long as some generation traces.

A collector that is away or slow costs its spans and nothing else. What is bounded is OpenTelemetry's own: a queue of
``OTEL_BSP_MAX_QUEUE_SIZE`` spans, of which the oldest are lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import uuid
from collections.abc import Iterable
from typing import Final, Self

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind
from starlette.types import Scope

from svir_proxy import __version__
from svir_proxy.server.gate import OPEN_PATHS
from svir_proxy.server.http import header
from svir_proxy.server.tracing.collector import Collector
from svir_proxy.server.tracing.conventions import Attributes, cut, method_of, route_of
from svir_proxy.server.tracing.request_trace import PROPAGATOR, RequestTrace
from svir_proxy.settings import TracingSettings

_FLUSH_SECONDS: Final = 3.0
"""How long the last spans may take to go, beyond the drain: less than a supervisor waits for its worker."""
_UNTRACED: Final = OPEN_PATHS | {"/metrics"}
"""What is asked every few seconds, and by nobody who would look at a trace of it."""
_CONTEXT: Final = (b"traceparent", b"tracestate")


class Tracing:
    """Makes the spans of requests. To be made in the process that serves: its export is a thread."""

    def __init__(self, settings: TracingSettings) -> None:
        self._collector = Collector(settings)
        self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._collector))
        self._tracer = self._provider.get_tracer("svir_proxy", __version__)
        self._users = 1

    def share(self) -> Self:
        """Used by one more generation, which gives it back too."""
        self._users += 1
        return self

    async def give_back(self) -> None:
        """Used by one generation less. With the last the spans that are left go out, as far as there is time."""
        self._users -= 1
        if self._users:
            return
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            with contextlib.suppress(RuntimeError):  # nobody waited as long, and the loop is closed
                loop.call_soon_threadsafe(over.set)

        # Not one of the loop's threads: the end of the process would wait for it.
        threading.Thread(target=shut_down, name="svir-traces-end", daemon=True).start()
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await over.wait()
        except TimeoutError:
            self._collector.give_up()

    def begin(self, scope: Scope, request_id: str) -> RequestTrace | None:
        """The spans of the request in *scope*, whose path is below /v1; None: it is none to be traced."""
        path: str = scope["path"]
        if path in _UNTRACED:
            return None
        method = method_of(scope["method"])
        route = route_of(path)
        told: Attributes = {
            "http.request.method": method,
            "url.path": cut(scope["svir.path"]),
            "url.scheme": scope.get("scheme", "http"),
            "network.protocol.version": scope.get("http_version", "1.1"),
            "svir.request_id": request_id,
        }
        if method == "_OTHER":
            told["http.request.method_original"] = cut(scope["method"])
        if route is not None:
            told["http.route"] = route
        if server := scope.get("server"):
            told["server.address"] = server[0]
            if server[1] is not None:
                told["server.port"] = server[1]
        if agent := header(scope, b"user-agent"):
            told["user_agent.original"] = cut(agent)
        verb = "HTTP" if method == "_OTHER" else method
        name = verb if route is None else f"{verb} {route}"
        parent = PROPAGATOR.extract(_carrier(scope["headers"]))
        return RequestTrace(self._tracer, self._tracer.start_span(name, parent, SpanKind.SERVER, told), path)


def _carrier(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    """The client's trace context; a tracestate may come in several headers."""
    carrier: dict[str, list[str]] = {}
    for raw, value in headers:
        if raw in _CONTEXT:
            carrier.setdefault(raw.decode(), []).append(value.decode("latin-1"))
    return carrier


def _resource() -> Resource:
    """What all spans are of: as the variables ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` have it."""
    instance = str(uuid.uuid4())  # each worker is one
    own = Resource({"service.version": __version__, "service.instance.id": instance, "process.pid": os.getpid()})
    given = Resource.create()
    if str(given.attributes.get("service.name", "")).startswith("unknown_service"):
        given = given.merge(Resource({"service.name": "svir-proxy"}))
    return own.merge(given)
