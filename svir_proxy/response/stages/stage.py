"""The shape every stage has.

Stages push: each hands what it lets through to the next one's ``feed``, so that an event that concerns no stage costs
one call per stage and no generator, list or queue. `Ended` and `Failed` are events like the others and the last ones: a
stage lets go of what it holds before it passes them on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from svir_proxy.response.events import StageEvent

Sink = Callable[[StageEvent], None]
"""Where a stage hands its events."""


class Stage(Protocol):
    """A step from events to events; built from plain values and the sink it feeds."""

    def feed(self, event: StageEvent) -> None:
        """Take the next event; whatever can be said now goes to the sink."""
