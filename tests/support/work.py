"""Counts the work of a piece of code in bytes instead of seconds, so that a test can tell linear from quadratic."""

from __future__ import annotations

import sys
import tracemalloc
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

_SEARCHES: Final = {
    "count", "decode", "encode", "find", "index", "isspace", "partition", "replace", "rfind", "rpartition", "split",
    "splitlines",
}  # fmt: skip


def work(step: Callable[[bytes], object], pieces: Iterable[bytes]) -> int:
    """Bytes of memory newly taken in all calls of *step*, and of the texts that were searched from end to end.

    Joining what was there before to each piece shows in the first, searching it again in the second.
    """
    searched = 0

    def count(frame: FrameType, event: str, called: Any) -> None:
        nonlocal searched
        if event == "c_call" and called.__name__ in _SEARCHES:
            text = called.__self__
            searched += len(text) if isinstance(text, str | bytes | bytearray) else 0

    taken = 0
    before = sys.getprofile()
    tracemalloc.start()
    sys.setprofile(count)
    try:
        for piece in pieces:
            tracemalloc.reset_peak()
            held, _ = tracemalloc.get_traced_memory()
            step(piece)
            taken += max(0, tracemalloc.get_traced_memory()[1] - held)
    finally:
        sys.setprofile(before)
        tracemalloc.stop()
    return taken + searched


def peak(step: Callable[[bytes], object], pieces: Iterable[bytes]) -> int:
    """Bytes of memory held at the most while *step* was called with each piece."""
    tracemalloc.start()
    try:
        for piece in pieces:
            step(piece)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
