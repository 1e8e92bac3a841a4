"""The page of all metrics, made from their table.

``python -m svir_proxy.server.metrics.table > docs/operations/metrics.md``
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from svir_proxy.server.metrics.families import FAMILIES, Family

_HEAD: Final = """# Metrics

`GET /metrics` is what Prometheus reads: the text format, or OpenMetrics where that is asked for. Where only this
machine reaches the proxy it is there; elsewhere it needs a key of its own, or an address of its own:

```yaml
metrics: {key_file: /run/secrets/metrics-key}   # beside the other routes, for who shows this key
```

```yaml
metrics: {host: 0.0.0.0, port: 9464}            # on a port of its own, which has nothing else but /healthz
```

```yaml
# prometheus.yml
scrape_configs:
  - job_name: svir-proxy
    authorization: {credentials_file: /run/secrets/metrics-key}   # where there is a key
    static_configs: [{targets: ["svir-proxy:8484"]}]
```

Without `metrics.key` the route asks for what the others ask for: one of `auth.keys`, where there are any, that may use
all models.

- **Several workers** share one address; whichever is asked tells the sum of all. Counters stay when a worker is
  replaced and when the configuration is reloaded; a restart begins at zero. What a worker counted in the second before
  it was killed may be missing. A gauge of a worker that has ended is gone.
- **Labels are bounded.** `model` is a name that the configuration or a server's list has, or the alias with a `*` that
  it is like; what clients make up is `other`, as is every model beyond a thousand series. An empty label: none was
  named, or none was asked.
- **Counting costs** a few microseconds for each request, after its answer is out, and nothing for an event of a stream.

| metric | type | labels | what it says |
| --- | --- | --- | --- |
"""

_TAIL: Final = """
Buckets:

{buckets}

Queries to begin with:

```promql
sum by (backend) (rate(svir_requests_total{{endpoint="chat/completions"}}[5m]))
sum by (code) (rate(svir_errors_total[5m]))
histogram_quantile(0.95, sum by (le, backend) (rate(svir_time_to_first_token_seconds_bucket[5m])))
histogram_quantile(0.5, sum by (le, model) (rate(svir_output_tokens_per_second_bucket[5m])))
sum by (model) (rate(svir_output_tokens_total[5m]))
max by (backend, model) (svir_breaker_state{{state="open"}}) > 0
```
"""


def page() -> str:
    """The page as Markdown."""
    rows = "".join(f"{line}\n" for line in map(_row, FAMILIES))
    return _HEAD + rows + _TAIL.format(buckets="\n".join(_buckets()))


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.shown_name}` | {family.kind} | {labels} | {family.help} |"


def _buckets() -> Iterator[str]:
    for family in FAMILIES:
        if family.buckets:
            yield f"- `{family.name}`: {', '.join(f'{bound:g}' for bound in family.buckets)}"


def main() -> None:
    """Print the page."""
    sys.stdout.write(page())


if __name__ == "__main__":
    main()
