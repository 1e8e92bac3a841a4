"""Whether a request fits, wherever it is counted."""

from __future__ import annotations

import pytest

from svir_proxy.server.quotas.bounds import Bound, Counted
from svir_proxy.server.quotas.counters import Demand, Verdict

NOON = 1796040000.0
BOUNDS = (Bound("requests", "minute", 2), Bound("tokens", "day", 100))


@pytest.mark.parametrize(
    ("at_once", "running", "counted", "fits"),
    [
        (None, 9, (Counted(0, 0), Counted(0, 0)), True),
        (None, 9, (Counted(1, 0), Counted(99, 0)), True),
        (None, 9, (Counted(2, 0), Counted(0, 0)), False),
        (None, 9, (Counted(0, 2), Counted(0, 0)), False),  # at noon sharp, all of the minute before counts
        (None, 9, (Counted(0, 0), Counted(100, 0)), False),
        (2, 1, (Counted(0, 0), Counted(0, 0)), True),
        (2, 2, (Counted(0, 0), Counted(0, 0)), False),
    ],
)
def test_a_request_fits_in_all_or_in_none(
    at_once: int | None, running: int, counted: tuple[Counted, ...], *, fits: bool
) -> None:
    demand = Demand("key:a", BOUNDS, at_once, "lease")
    assert demand.fits(demand.windows(NOON), Verdict(True, running, counted)) == fits
