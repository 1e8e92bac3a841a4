"""Numbers as the text that Prometheus reads, or as OpenMetrics where that is asked for."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.utils import floatToGoString

from svir_proxy import __version__
from svir_proxy.server.metrics.families import BUILD, FAMILIES, Family
from svir_proxy.server.metrics.values import Labels, Sample, Values

_BUILD: Final = (__version__, platform.python_version())


def render(values: Values, accept: str) -> tuple[str, bytes]:
    """Content type and body of *values*, in the format that the header *accept* names."""
    try:
        encode, content_type = choose_encoder(accept)
    except (ValueError, TypeError):  # a version that is none
        encode, content_type = generate_latest, CONTENT_TYPE_PLAIN_0_0_4
    return content_type, encode(_Numbers({**values, BUILD.name: {_BUILD: 1}}))


class _Numbers:
    """What the library asks for its metrics."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def collect(self) -> Iterable[Metric]:
        """All families, also those that nothing is known of yet."""
        return (_metric(family, self._values.get(family.name, {})) for family in FAMILIES)


def _metric(family: Family, samples: dict[Labels, Sample]) -> Metric:
    ordered = sorted(samples.items())
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
        for labels, sample in ordered:
            assert isinstance(sample, list)
            histogram.add_metric(labels, list(_buckets(family, sample)), sample[-1])
        return histogram
    if family.kind == "info":
        info = InfoMetricFamily(family.name, family.help)
        for labels, _ in ordered:
            info.add_metric([], dict(zip(family.labels, labels, strict=True)))
        return info
    make = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = make(family.name, family.help, labels=family.labels)
    for labels, sample in ordered:
        assert not isinstance(sample, list)
        metric.add_metric(labels, sample)
    return metric


def _buckets(family: Family, sample: list[float]) -> Iterator[tuple[str, float]]:
    bounds = (*map(floatToGoString, family.buckets), "+Inf")
    return zip(bounds, accumulate(sample[:-1]), strict=True)
