"""The text of a scrape: read back by Prometheus' own parsers, and clean by promtool."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

import pytest
from hypothesis import given
from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

import svir_proxy
from svir_proxy.errors import ProxyError
from svir_proxy.server.metrics import families
from svir_proxy.server.metrics.exposition import render
from svir_proxy.server.metrics.families import FAMILIES
from svir_proxy.server.metrics.tally import Tally
from svir_proxy.server.metrics.values import Values
from tests.server.metrics.records import Answered, record
from tests.server.metrics.test_values import VALUES

NASTY: Final = 'a"b\\c\nd{}é'
OPENMETRICS: Final = "application/openmetrics-text"


def values() -> Values:
    """A sample of each family."""
    tally = Tally()
    answer = Answered(first=1.0, last=3.0, tokens=(10, 21))
    notes = ("retry=x", "failover=a:upstream_failed")
    full = record(model=NASTY, stream=True, answer=answer, notes=notes, error=ProxyError("stream_truncated", "cut"))
    tally.count(full, lambda model: model)
    gauges: Values = {
        family.name: {tuple("x" for _ in family.labels): 1} for family in FAMILIES if family.kind == "gauge"
    }
    return {**tally.values(), **gauges, families.LOG_LINES_DROPPED.name: {(): 0}}


def samples(text: str, *, openmetrics: bool = False) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for metric in (read_openmetrics if openmetrics else read_text)(text):
        for sample in metric.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        (f"{OPENMETRICS};version=1.0.0;q=0.5,text/plain;q=0.3", f"{OPENMETRICS}; version=1.0.0; charset=utf-8"),
        (f"text/plain;q=0.3, {OPENMETRICS.upper()} ;version=0.0.1", f"{OPENMETRICS}; version=1.0.0; charset=utf-8"),
        (f"{OPENMETRICS};q=0", "text/plain; version=0.0.4; charset=utf-8"),
        (f"{OPENMETRICS};q=0.0;version=1.0.0", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain;version=1.0.0;escaping=nonsense", "text/plain; version=0.0.4; charset=utf-8"),
        (";,;version=;=", "text/plain; version=0.0.4; charset=utf-8"),
    ],
)
def test_the_format_is_the_one_that_is_asked_for(accept: str, media: str) -> None:
    content_type, body = render(values(), accept)
    assert content_type.startswith(media)
    assert (b"# EOF" in body) == content_type.startswith(OPENMETRICS)


@pytest.mark.parametrize("openmetrics", [False, True])
def test_what_is_told_is_read_back(openmetrics: bool) -> None:
    _, body = render(values(), f"{OPENMETRICS};version=1.0.0" if openmetrics else "")
    found = samples(body.decode(), openmetrics=openmetrics)
    of_model = {"backend": "b", "model": NASTY}
    told = {**of_model, "endpoint": "chat/completions"}
    assert found["svir_requests_total"] == [({**told, "status": "200"}, 1)]
    assert found["svir_errors_total"] == [({**told, "code": "stream_truncated"}, 1)]
    assert found["svir_output_tokens_total"] == [(of_model, 21)]
    assert found["svir_build_info"] == [({"version": svir_proxy.__version__, "python": platform.python_version()}, 1)]
    buckets = {labels["le"]: value for labels, value in found["svir_output_tokens_per_second_bucket"]}
    assert (buckets["5.0"], buckets["10.0"], buckets["+Inf"]) == (0, 1, 1)
    assert found["svir_output_tokens_per_second_sum"] == [(of_model, 10)]
    names = {family.shown_name for family in FAMILIES if family.kind != "histogram"}
    assert names <= found.keys()


class Library:
    """The same values as Prometheus' own library has them."""

    def __init__(self, told: Values) -> None:
        self._told = {**told, families.BUILD.name: {(svir_proxy.__version__, platform.python_version()): 1}}

    def collect(self) -> Iterator[Metric]:
        for family in FAMILIES:
            metric = _MAKES[family.kind](family.name, family.help, labels=family.labels)
            for labels, sample in self._told.get(family.name, {}).items():
                if isinstance(sample, list):
                    bounds = [*map(str, family.buckets), "+Inf"]
                    buckets = list(zip(bounds, accumulate(sample[:-1]), strict=True))
                    metric.add_metric(labels, buckets, sample[-1])
                elif family.kind == "info":
                    metric.add_metric([], dict(zip(family.labels, labels, strict=True)))
                else:
                    metric.add_metric(labels, sample)
            yield metric


_MAKES: Final[dict[str, Any]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
    "info": lambda name, text, labels: InfoMetricFamily(name, text),
}


@given(VALUES)
def test_it_says_what_the_library_would(told: Values) -> None:
    for openmetrics, write in ((False, write_text), (True, write_openmetrics)):
        _, body = render(told, OPENMETRICS if openmetrics else "")
        theirs = write(Library(told))  # type: ignore[arg-type]
        read = read_openmetrics if openmetrics else read_text
        ours, other = (
            {
                (metric.name, metric.type, metric.documentation): sorted(
                    (sample.name, sorted(sample.labels.items()), float(sample.value)) for sample in metric.samples
                )
                for metric in read(text.decode())
            }
            for text in (body, theirs)
        )
        assert ours == other


def test_all_metrics_are_declared_before_anything_was_counted() -> None:
    _, body = render({}, "")
    declared = [line.split()[2] for line in body.decode().splitlines() if line.startswith("# TYPE")]
    assert declared == [family.shown_name for family in FAMILIES]


def promtool(*arguments: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not there: apt-get install prometheus")
    return subprocess.run([tool, *arguments], input=text, capture_output=True, check=False)


@pytest.mark.parametrize("told", [{}, values()], ids=["nothing", "all"])
def test_promtool_has_nothing_to_say(told: Any) -> None:
    done = promtool("check", "metrics", text=render(told, "")[1])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
