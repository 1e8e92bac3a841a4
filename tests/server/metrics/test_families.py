"""The table of metrics keeps to Prometheus' conventions."""

from __future__ import annotations

import re

import pytest

from svir_proxy.server.metrics.families import BY_NAME, FAMILIES, Family


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_is_well_formed(family: Family) -> None:
    assert re.fullmatch(r"svir(_[a-z]+)+", family.name)
    assert not family.name.endswith(("_total", "_count", "_sum", "_bucket", "_info", "_created"))
    assert family.help.endswith(".")
    assert bool(family.buckets) == (family.kind == "histogram")
    assert list(family.buckets) == sorted(set(family.buckets))
    assert all(re.fullmatch(r"[a-z]+", label) for label in family.labels)
    assert (family.merge == "min") <= (family.kind == "gauge")


def test_the_name_that_queries_have() -> None:
    assert BY_NAME["svir_requests"].shown_name == "svir_requests_total"
    assert BY_NAME["svir_build"].shown_name == "svir_build_info"
    assert BY_NAME["svir_open_streams"].shown_name == "svir_open_streams"
