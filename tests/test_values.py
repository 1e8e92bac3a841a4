"""What a value is: compared and shown by what it holds, with room for nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from svir_proxy.values import value


@value
class Point:
    """A value."""

    x: int
    y: int = 0


def test_values_are_what_they_hold() -> None:
    assert Point(1) == Point(1, 0) != Point(1, 2)
    assert repr(replace(Point(1), y=3)) == "Point(x=1, y=3)"
    with pytest.raises(AttributeError):
        Point(1).z = 1  # type: ignore[attr-defined]
