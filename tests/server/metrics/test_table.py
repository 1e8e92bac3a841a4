"""The page of metrics is complete, and what ships."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from svir_proxy.server.metrics.families import FAMILIES
from svir_proxy.server.metrics.table import page

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = ROOT / "docs" / "operations" / "metrics.md"


def test_the_committed_page_is_current() -> None:
    command = [sys.executable, "-m", "svir_proxy.server.metrics.table"]
    made = subprocess.run(command, capture_output=True, check=True, cwd=ROOT, text=True).stdout
    assert PAGE.read_text("utf-8") == made, "python -m svir_proxy.server.metrics.table > docs/operations/metrics.md"


def test_every_metric_has_a_row_with_its_labels() -> None:
    rows = {line.split(" | ")[0].strip("|` "): line for line in page().splitlines() if line.startswith("| `svir_")}
    assert list(rows) == [family.shown_name for family in FAMILIES]
    for family in FAMILIES:
        assert [f"`{label}`" in rows[family.shown_name] for label in family.labels] == [True] * len(family.labels)


def test_queries_are_about_metrics_that_there_are() -> None:
    queries = page().partition("```promql")[2].partition("```")[0]
    named = set(re.findall(r"svir_[a-z_]+", queries))
    there = {family.shown_name for family in FAMILIES}
    there |= {f"{family.name}_bucket" for family in FAMILIES if family.buckets}
    assert named
    assert named <= there
