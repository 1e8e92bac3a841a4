"""The windows of time in which a limit is counted, and when one that is full is free again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.server.quotas.bounds import Bound, Counted, Span, bounds_of
from svir_proxy.settings import KeyLimits


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("span", "now", "current", "previous", "weight", "ends"),
    [
        ("minute", "2026-11-30T12:00:00", "29934000", "29933999", 1.0, "2026-11-30T12:01:00"),
        ("minute", "2026-11-30T12:00:45", "29934000", "29933999", 0.25, "2026-11-30T12:01:00"),
        ("day", "2026-11-30T00:00:00", "2026-11-30", "", 0.0, "2026-12-01T00:00:00"),
        ("day", "2026-11-30T23:59:59", "2026-11-30", "", 0.0, "2026-12-01T00:00:00"),
        ("month", "2026-11-30T12:00:00", "2026-11", "", 0.0, "2026-12-01T00:00:00"),
        ("month", "2026-12-01T00:00:00", "2026-12", "", 0.0, "2027-01-01T00:00:00"),
        ("month", "2028-02-29T12:00:00", "2028-02", "", 0.0, "2028-03-01T00:00:00"),
        ("month", "2027-01-31T12:00:00", "2027-01", "", 0.0, "2027-02-01T00:00:00"),
    ],
)
def test_windows(span: Span, now: str, current: str, previous: str, *, weight: float, ends: str) -> None:
    assert Bound("requests", span, 1).window(at(now)) == (current, previous, weight, at(ends))


NOON = at("2026-11-30T12:00:00")


@pytest.mark.parametrize(
    ("bound", "into", "counted", "used", "free"),
    [
        # (seconds after noon) what this minute and the one before have, what counts of it, when one more is let in
        (Bound("requests", "minute", 2), 0, Counted(1, 0), 1, None),
        (Bound("requests", "minute", 2), 30, Counted(2, 0), 2, 60),
        (Bound("requests", "minute", 1), 59, Counted(1, 0), 1, 60),
        (Bound("requests", "minute", 4), 15, Counted(1, 4), 4, 15),  # 4 * 45/60 falls below 3 in this moment
        (Bound("requests", "minute", 10), 0, Counted(0, 10), 10, 0),
        (Bound("requests", "minute", 10), 30, Counted(8, 10), 13, 48),
        # a single answer took five times the limit: what is beyond still counts a minute later
        (Bound("tokens", "minute", 100), 30, Counted(500, 0), 500, 60 + 48),
        (Bound("tokens", "minute", 100), 30, Counted(0, 500), 250, 48),
        (Bound("tokens", "day", 100), 0, Counted(99, 0), 99, None),
        (Bound("tokens", "day", 100), 0, Counted(150, 0), 150, 12 * 3600),
        (Bound("requests", "month", 5), 0, Counted(5, 0), 5, 12 * 3600),
    ],
)
def test_what_counts_and_when_there_is_room(
    bound: Bound, into: float, counted: Counted, used: int, free: float | None
) -> None:
    window = bound.window(NOON + into)
    assert bound.used(window, counted) == used
    assert bound.is_full(window, counted) == (free is not None)
    if free is not None:
        assert bound.free_at(window, counted) == pytest.approx(NOON + free, abs=0.01)


@given(
    amount=st.integers(1, 1000),
    current=st.integers(0, 5000),
    previous=st.integers(0, 5000),
    into=st.floats(0, 59.9),
)
def test_it_is_free_when_it_says_and_not_before(amount: int, current: int, previous: int, into: float) -> None:
    bound = Bound("tokens", "minute", amount)
    now = NOON + into
    window, counted = bound.window(now), Counted(current, previous)
    if not bound.is_full(window, counted):
        return
    free = bound.free_at(window, counted)
    assert now < free <= NOON + 120.01

    def is_full(moment: float) -> bool:
        later = bound.window(moment)
        gone = int(later.current) - int(window.current)
        return bound.is_full(later, (counted, Counted(0, current), Counted())[gone])

    assert not is_full(free)
    assert free - 0.1 < now or is_full(free - 0.1)
    assert bound.reset_at(window, counted) >= free - 0.01


def test_the_bounds_of_settings_are_the_shortest_first() -> None:
    limits = KeyLimits(tokens_per_month=6, requests_per_day=3, tokens_per_minute=2, requests_per_minute=1)
    assert bounds_of(limits) == (
        Bound("requests", "minute", 1),
        Bound("tokens", "minute", 2),
        Bound("requests", "day", 3),
        Bound("tokens", "month", 6),
    )
    assert bounds_of(KeyLimits(concurrent_requests=4)) == ()
    assert {bound.setting for bound in bounds_of(limits)} < set(KeyLimits.model_fields)
    assert [bound.cost for bound in bounds_of(limits)] == [1, 0, 1, 0], "tokens are known at the end"
