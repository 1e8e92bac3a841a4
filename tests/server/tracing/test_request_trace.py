"""The spans of one request beside each other; the whole way is in test_tracing.py."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import INVALID_SPAN

from svir_proxy.errors import ProxyError
from svir_proxy.server.catalog import Route
from svir_proxy.server.request_record import RequestRecord
from svir_proxy.server.tracing.request_trace import RequestTrace
from svir_proxy.server.upstream import Upstream
from tests.server.support import settings


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def _trace(exporter: InMemorySpanExporter, path: str = "/chat/completions") -> RequestTrace:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("t")
    return RequestTrace(tracer, tracer.start_span("server"), path)


def _route(model: str = "m", base_url: str = "https://models.example/v1", **backend: Any) -> Route:
    configured = settings(base_url, backend=backend)
    return Route(
        Upstream(configured.backends[0], configured.limits, httpx.MockTransport(lambda _: httpx.Response(500))), model
    )


@pytest.mark.parametrize(
    ("record", "told", "failed"),
    [
        ({"status": 200, "key": "ana", "backend": "b", "model": "m", "notes": ("a=b",)}, {"svir.key": "ana", "svir.backend": "b", "svir.model": "m", "svir.rewrites": ("a=b",)}, False),
        ({"status": 404, "error": ProxyError("model_not_found", "the name")}, {"svir.error": "model_not_found"}, False),
        ({"status": 499}, {"svir.error": "client_closed"}, False),
        ({"status": 500}, {"error.type": "500"}, True),
        ({"status": 503, "error": ProxyError("overloaded", "no")}, {"svir.error": "overloaded", "error.type": "overloaded"}, True),
        ({"status": 200, "error": ProxyError("stream_truncated", "no")}, {"svir.error": "stream_truncated", "error.type": "stream_truncated"}, True),
    ],
)  # fmt: skip
def test_an_end(exporter: InMemorySpanExporter, record: dict[str, Any], told: dict[str, Any], failed: bool) -> None:
    _trace(exporter).end(RequestRecord("r", "POST", "/v1/chat/completions", **record))
    (span,) = exporter.get_finished_spans()
    assert dict(span.attributes or {}) == {"http.response.status_code": record["status"], **told}
    assert (not span.status.is_ok) is failed


@pytest.mark.parametrize(
    ("base_url", "address"),
    [
        ("https://models.example/v1", ("models.example", 443)),
        ("http://models.example", ("models.example", 80)),
        ("http://[::1]:8080/v1", ("::1", 8080)),
    ],
)
def test_an_attempt_says_where(exporter: InMemorySpanExporter, base_url: str, address: tuple[str, int]) -> None:
    with _trace(exporter).attempt(_route(base_url=base_url), "m", {}):
        pass
    told = exporter.get_finished_spans()[0].attributes or {}
    assert (told["server.address"], told["server.port"]) == address
    assert told["gen_ai.provider.name"] == "generic"


def test_names_of_attempts_have_the_model_where_one_was_named(exporter: InMemorySpanExporter) -> None:
    made = _trace(exporter, "/embeddings")
    for model in ("m", "", "x" * 999):
        with made.attempt(_route(), model, {}):
            pass
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == ["embeddings m", "embeddings", "embeddings " + "x" * 200]
    assert [(span.attributes or {}).get("http.request.resend_count") for span in spans] == [None, 1, 2]


def test_a_backend_may_have_a_provider_of_its_own(exporter: InMemorySpanExporter) -> None:
    with _trace(exporter).attempt(_route(overrides={"provider": "moonshot_ai"}), "m", {}):
        pass
    assert (exporter.get_finished_spans()[0].attributes or {})["gen_ai.provider.name"] == "moonshot_ai"


def test_without_a_trace_there_is_none_to_be_told_or_sent() -> None:
    """As with OTEL_SDK_DISABLED and a client that has none."""
    made = RequestTrace(trace.NoOpTracer(), INVALID_SPAN, "/chat/completions")
    assert made.trace_id == ""
    with made.attempt(_route(), "m", {}) as attempt:
        assert attempt.headers == {}
    made.end(RequestRecord("r", "POST", "/v1/chat/completions", status=200))
