"""Figures in words: percentiles, and tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def percentile(values: Iterable[float], share: float) -> float:
    """The least value that *share* (0 to 1) of *values* do not exceed; nan where there is none."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else float("nan")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; a float has one digit behind the point, None is a dash."""
    lines = [head, ["---"] * len(head), *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    if value is None or value != value:  # noqa: PLR0124 - nan
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)
