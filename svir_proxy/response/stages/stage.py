"""What stages are to each other: an object whose ``feed`` is the `Sink` of the one before it.

Stages push: each hands what it lets through to the next one's ``feed``, so that an event that concerns no stage costs
one call per stage and no generator, list or queue. `Ended` and `Failed` are events like the others and the last ones: a
stage lets go of what it holds before it passes them on.
"""

from __future__ import annotations

from collections.abc import Callable

from svir_proxy.response.events import StageEvent

Sink = Callable[[StageEvent], None]
"""Where a stage hands its events."""
