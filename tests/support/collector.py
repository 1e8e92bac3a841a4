"""A collector of traces: takes OTLP over HTTP as OpenTelemetry's own does, and shows the spans that came."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.server.transport.raw_server import HANG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue


@dataclass(frozen=True)
class SeenSpan:
    """A span as the collector got it; ids in hex, times in nanoseconds."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    state: str
    attributes: dict[str, Any]
    failed: bool
    began: int
    ended: int
    resource: dict[str, Any]


class SpanCollector:
    """``with SpanCollector() as collector: collector.url``. What it does may change while it runs."""

    def __init__(self) -> None:
        self.spans: list[SeenSpan] = []
        self.headers: list[dict[str, str]] = []
        """Those of each request, names in lower case."""
        self.paths: list[str] = []
        self.status = 200
        self.answers = threading.Event()
        """Cleared: it takes what comes, and says nothing."""
        self.answers.set()
        self.asked = threading.Event()

    def __enter__(self) -> Self:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.paths.append(self.path)
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                collector.asked.set()
                collector.answers.wait(HANG)
                if collector.status == 200:
                    collector.spans += _spans(ExportTraceServiceRequest.FromString(body))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(collector.status)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.answers.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """As an operator writes it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    async def has(self, count: int, which: Callable[[SeenSpan], bool] = lambda _: True) -> list[SeenSpan]:
        """The spans that *which* takes, in the order in which they began, as soon as there are *count*."""
        async with asyncio.timeout(HANG):
            while len(found := [span for span in self.spans if which(span)]) < count:  # noqa: ASYNC110 - a thread fills it
                await asyncio.sleep(0.01)
        assert len(found) == count, [span.name for span in found]
        return sorted(found, key=lambda span: span.began)


def _spans(request: ExportTraceServiceRequest) -> Iterable[SeenSpan]:
    for of_resource in request.resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for scope in of_resource.scope_spans:
            assert scope.scope.name == "svir_proxy"
            for span in scope.spans:
                yield SeenSpan(
                    name=span.name,
                    kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    state=span.trace_state,
                    attributes=_attributes(span.attributes),
                    failed=span.status.code == Status.STATUS_CODE_ERROR,
                    began=span.start_time_unix_nano,
                    ended=span.end_time_unix_nano,
                    resource=resource,
                )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(inner) for inner in value.array_value.values]
    return getattr(value, kind)
