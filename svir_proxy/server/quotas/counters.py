"""Where requests and tokens are counted: what every such place can do."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple, Protocol

from svir_proxy.server.quotas.bounds import Bound, Counted, Window


class Demand(NamedTuple):
    """One request that wants to be let in, and what it is counted in.

    Attributes:
        account: Whose counters they are.
        bounds: Those that count in time.
        at_once: How many requests of the account may run at a time; None: any number.
        lease: Names this request among those that run.
    """

    account: str
    bounds: tuple[Bound, ...]
    at_once: int | None
    lease: str

    def windows(self, now: float) -> tuple[Window, ...]:
        """The window of each bound at *now* (Unix time)."""
        return tuple(bound.window(now) for bound in self.bounds)

    def fits(self, windows: tuple[Window, ...], verdict: Verdict) -> bool:
        """Whether one more is let in where so much counts. `admit.lua` decides by the same rule."""
        if self.at_once is not None and verdict.running >= self.at_once:
            return False
        return not any(map(Bound.is_full, self.bounds, windows, verdict.counted))


class Verdict(NamedTuple):
    """What became of a demand.

    Attributes:
        taken: Whether it was let in. If not, nothing was counted.
        running: Requests of the account that ran before it.
        counted: What each bound had counted before it.
    """

    taken: bool
    running: int
    counted: tuple[Counted, ...]


class StoreDown(Exception):  # noqa: N818 - a state, which the caller decides about
    """The store did not answer, or is known not to."""


class Counters(Protocol):
    """A place where it is counted."""

    @property
    def is_shared(self) -> bool:
        """Whether other processes count in the same place."""

    @property
    def is_down(self) -> bool:
        """Whether nothing can be counted now."""

    async def admit(self, demand: Demand, now: float) -> Verdict:
        """Count *demand* in all that it has to be counted in, or in nothing. Raises StoreDown."""

    def settle(self, demand: Demand, tokens: int, now: float) -> None:
        """The request that was let in is over and took *tokens*, which are counted whether they fit or not."""

    def close(self) -> Awaitable[None]:
        """Count what is to be counted, and let go of what is held."""
