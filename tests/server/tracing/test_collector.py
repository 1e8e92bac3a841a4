"""What is told of a collector, and what never is; the export itself is in test_tracing.py."""

from __future__ import annotations

import logging

import pytest
from opentelemetry.sdk.trace.export import SpanExportResult

from svir_proxy.server.tracing.collector import Collector
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
