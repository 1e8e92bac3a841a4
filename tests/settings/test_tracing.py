"""Traces are off until an endpoint, or somebody, switches them on."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from typing import Any

import pytest
from pydantic import ValidationError

from svir_proxy.settings import Settings, TracingSettings
from svir_proxy.settings import tracing as module
from svir_proxy.settings.problems import problems_of


@pytest.mark.parametrize(
    ("given", "is_on"),
    [
        ({}, False),
        ({"enabled": True}, True),
        ({"endpoint": "http://h:4318"}, True),
        ({"endpoint": "http://h:4318", "enabled": False}, False),
        ({"headers": {"a": "b"}}, False),
    ],
)
def test_on_or_off(given: dict[str, Any], is_on: bool) -> None:
    assert TracingSettings.model_validate(given).is_on is is_on


@pytest.mark.parametrize(
    ("endpoint", "meant"),
    [
        ("http://h:4318", "http://h:4318/v1/traces"),
        ("https://h/ ", "https://h/v1/traces"),
        ("http://h/otlp/traces", "http://h/otlp/traces"),
        ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
    ],
)
def test_a_collector_has_its_usual_path(endpoint: str, meant: str) -> None:
    assert TracingSettings(endpoint=endpoint).endpoint == meant


@pytest.mark.parametrize(
    "endpoint",
    ["h:4318", "grpc://h:4317", "http://", "http://u:sk-1@h", "http://h/?k=sk-1", "http://h:99999", "http://h/#sk-1", "http://h/a b"],
)  # fmt: skip
def test_what_is_no_collector_is_refused_and_not_repeated(endpoint: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"tracing": {"endpoint": endpoint}})
    ((path, text),) = problems_of(caught.value, Settings)
    assert path == "tracing.endpoint"
    assert "sk-" not in text


def test_headers_are_secret_and_checked() -> None:
    assert "sk-" not in repr(TracingSettings.model_validate({"headers": {"x-key": "sk-1"}}))
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"tracing": {"headers": {"content-length": "1"}}})
    assert problems_of(caught.value, Settings) == [
        ("tracing.headers.content-length", "is set by the proxy; leave it out")
    ]


@pytest.mark.parametrize("missing", ["opentelemetry", "opentelemetry.exporter.otlp.proto.http"])
@pytest.mark.parametrize(
    ("given", "path"),
    [({"enabled": True}, "enabled"), ({"endpoint": "http://h"}, "endpoint"), ({"enabled": False}, ""), ({}, "")],
)
def test_the_extra_is_named_where_it_is_missing(
    given: dict[str, Any], path: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_spec(name: str) -> ModuleSpec | None:
        if name.startswith(missing):
            if "." in missing:
                return None
            raise ModuleNotFoundError(name)
        return ModuleSpec(name, None)

    monkeypatch.setattr(module, "find_spec", find_spec)
    if not path:
        assert not TracingSettings.model_validate(given).is_on
        return
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"tracing": given})
    ((where, text),) = problems_of(caught.value, Settings)
    assert where == f"tracing.{path}"
    assert "svir-proxy[otel]" in text
