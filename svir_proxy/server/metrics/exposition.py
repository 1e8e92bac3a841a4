"""Numbers as the text that Prometheus reads, or as OpenMetrics where that is asked for.

Written here and not by `prometheus_client`, which takes a millisecond for each model that is told apart: with a hundred
of them streams would stand still for longer than the next token takes. The tests hold the two against each other.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from svir_proxy import __version__
from svir_proxy.server.metrics.families import BUILD, FAMILIES, Family
from svir_proxy.server.metrics.values import Labels, Sample, Values

_BUILD: Final = (__version__, platform.python_version())
_OPENMETRICS: Final = "application/openmetrics-text"
_OPENMETRICS_TYPE: Final = f"{_OPENMETRICS}; version=1.0.0; charset=utf-8"
_TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_NOT_WANTED: Final = re.compile(r";\s*q=0(?:\.0*)?\s*(?:;|$)")
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_LE: Final = {family.name: [f'le="{bound!r}"' for bound in family.buckets] + ['le="+Inf"'] for family in FAMILIES}


def render(values: Values, accept: str) -> tuple[str, bytes]:
    """Content type and body of *values*, in the format that the header *accept* names."""
    is_open = _wants_openmetrics(accept)
    values = {**values, BUILD.name: {_BUILD: 1}}
    lines = [line for family in FAMILIES for line in _family(family, values.get(family.name, {}), is_open=is_open)]
    if is_open:
        lines.append("# EOF")
    return _OPENMETRICS_TYPE if is_open else _TEXT_TYPE, "".join(f"{line}\n" for line in lines).encode()


def _wants_openmetrics(accept: str) -> bool:
    ranges = (part.strip().lower() for part in accept.split(","))
    return any(part.partition(";")[0].strip() == _OPENMETRICS and not _NOT_WANTED.search(part) for part in ranges)


def _family(family: Family, samples: dict[Labels, Sample], *, is_open: bool) -> Iterator[str]:
    # OpenMetrics declares the name without what the kind adds to it.
    name = family.name if is_open else family.shown_name
    kind = "gauge" if family.kind == "info" and not is_open else family.kind
    yield f"# HELP {name} {family.help}"
    yield f"# TYPE {name} {kind}"
    for labels, sample in sorted(samples.items()):
        told = ",".join(
            f'{label}="{value.translate(_ESCAPES)}"' for label, value in zip(family.labels, labels, strict=True)
        )
        if not isinstance(sample, list):
            yield f"{family.shown_name}{{{told}}} {sample}" if told else f"{family.shown_name} {sample}"
            continue
        for le, count in zip(_LE[family.name], accumulate(map(int, sample[:-1])), strict=True):
            yield f"{family.name}_bucket{{{told},{le}}} {count}"
        yield f"{family.name}_count{{{told}}} {count}"
        yield f"{family.name}_sum{{{told}}} {sample[-1]!r}"
