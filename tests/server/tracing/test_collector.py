"""What is told of a collector, and what never is; the export itself is in test_tracing.py."""

from __future__ import annotations

import logging

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

from svir_proxy.server.tracing.collector import _WORDS, Collector
from svir_proxy.settings import TracingSettings
from tests.support.collector import SpanCollector


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_changes_are_told_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with SpanCollector() as server:
        collector = Collector(TracingSettings(endpoint=server.url))
        took = []
        for status in (200, 404, 413, 200, 200, 400):
            server.status = status
            took.append(collector.export([]) is SpanExportResult.SUCCESS)
        collector.shutdown()
    assert took == [True, False, False, True, True, False]
    where = f"{server.url}/v1/traces"
    assert [record.getMessage() for record in caplog.records if record.name == "svir_proxy"] == [
        f"traces do not reach the collector at {where} (it answers 404): those of the meantime are lost",
        f"traces reach the collector at {where}",
        f"traces do not reach the collector at {where} (it answers 400): those of the meantime are lost",
    ]
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]


def test_a_url_of_the_environment_is_told_without_its_secrets(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://user:sk-one@127.0.0.1:1/v1/traces?key=sk-two")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    collector = Collector(TracingSettings(enabled=True))
    assert collector.export([]) is SpanExportResult.FAILURE
    collector.give_up()
    assert [record.getMessage() for record in caplog.records] == [
        "traces do not reach the collector at http://127.0.0.1:1/v1/traces (it does not answer): those of the meantime are lost",
        "the last traces did not reach the collector at http://127.0.0.1:1/v1/traces in time",
    ]
    assert collector.force_flush()


def test_a_full_queue_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(_WORDS, "_full_until", 0.0)
    with SpanCollector() as server:
        server.answers.clear()
        collector = Collector(TracingSettings(endpoint=server.url))
        processor = BatchSpanProcessor(collector, max_queue_size=2, max_export_batch_size=2, schedule_delay_millis=10)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(processor)
        for _ in range(20):
            provider.get_tracer("svir_proxy").start_span("s").end()
        server.answers.set()
        provider.shutdown()
    said = "traces come faster than the collector takes them: some are lost (OTEL_BSP_MAX_QUEUE_SIZE)"
    assert [record.getMessage() for record in caplog.records].count(said) == 1
