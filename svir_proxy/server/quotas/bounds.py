"""One limit, and the windows of time in which it is counted. Nothing here counts, or asks what time it is.

A minute slides: the minute before counts for as much as it still reaches into the last 60 seconds, so that nobody gets
twice the limit around the full minute. Two counters tell it, where a list of what came when would grow with the limit.
Days and months are the calendar's, in UTC, and begin anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import floor
from typing import Final, Literal, NamedTuple

from svir_proxy.settings import KeyLimits

Unit = Literal["requests", "tokens"]
Span = Literal["minute", "day", "month"]

_MINUTE: Final = 60.0
_KEPT: Final[dict[Span, int]] = {"minute": 180, "day": 2 * 86400, "month": 33 * 86400}
"""Seconds that a counter is kept: longer than it is looked at, since clocks differ."""
_SPANS: Final[tuple[Span, ...]] = ("minute", "day", "month")
_UNITS: Final[tuple[Unit, ...]] = ("requests", "tokens")
_MOMENT: Final = 0.001
"""Seconds beyond the one at which a limit is just not free yet."""


class Window(NamedTuple):
    """A stretch of time in which something is counted.

    Attributes:
        current: Names its counter.
        previous: Names the counter of the one before.
        weight: How much of that one still counts, 0 to 1.
        ends: Unix time.
    """

    current: str
    previous: str
    weight: float
    ends: float


class Counted(NamedTuple):
    """What was counted in a window, and in the one before."""

    current: int = 0
    previous: int = 0


@dataclass(frozen=True, slots=True)
class Bound:
    """No more than *amount* of *unit* in a *span* of time."""

    unit: Unit
    span: Span
    amount: int

    @property
    def setting(self) -> str:
        """What it is called in the configuration."""
        return f"{self.unit}_per_{self.span}"

    @property
    def cost(self) -> int:
        """What a request counts when it is let in. Its tokens are known when its answer is over."""
        return 1 if self.unit == "requests" else 0

    @property
    def kept(self) -> int:
        """Seconds that a counter of it is kept."""
        return _KEPT[self.span]

    def window(self, now: float) -> Window:
        """The window of *now* (Unix time)."""
        if self.span == "minute":
            number, into = divmod(now, _MINUTE)
            return Window(f"{number:.0f}", f"{number - 1:.0f}", 1 - into / _MINUTE, now - into + _MINUTE)
        today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        if self.span == "day":
            return Window(f"{today:%Y-%m-%d}", "", 0.0, (today + timedelta(days=1)).timestamp())
        month = today.replace(day=1)
        return Window(f"{month:%Y-%m}", "", 0.0, (month + timedelta(days=31)).replace(day=1).timestamp())

    def used(self, window: Window, counted: Counted) -> int:
        """How much counts."""
        return counted.current + floor(counted.previous * window.weight)

    def is_full(self, window: Window, counted: Counted) -> bool:
        """Whether nobody more is let in."""
        return self.used(window, counted) >= self.amount

    def free_at(self, window: Window, counted: Counted) -> float:
        """When (Unix time) one more is let in, if nothing else is counted meanwhile; for a bound that is full."""
        return self._falls_below(self.amount, window, counted)

    def reset_at(self, window: Window, counted: Counted) -> float:
        """When (Unix time) nothing counts any more, if nothing else is counted meanwhile."""
        return self._falls_below(1, window, counted)

    def _falls_below(self, amount: int, window: Window, counted: Counted) -> float:
        if self.span != "minute":
            return window.ends
        began = window.ends - _MINUTE
        if counted.current < amount:  # the minute before goes down to what is left beside this one
            share = 1 - (amount - counted.current) / counted.previous if counted.previous else 0.0
            return began + max(share, 0.0) * _MINUTE + _MOMENT
        return window.ends + (1 - amount / counted.current) * _MINUTE + _MOMENT


def bounds_of(limits: KeyLimits) -> tuple[Bound, ...]:
    """The limits that are counted in time, the shortest span first."""
    return tuple(
        Bound(unit, span, amount)
        for span in _SPANS
        for unit in _UNITS
        if (amount := getattr(limits, f"{unit}_per_{span}")) is not None
    )
