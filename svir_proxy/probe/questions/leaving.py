"""What a server does when its client leaves: whether it goes on generating shows in how long the next one waits.

Only a server with one place at a time shows it; one that has others free answers at once either way, and then nothing
is said.
"""

from __future__ import annotations

from typing import Final

from svir_proxy.probe.dialogue import Dialogue, Question, size, unknown
from svir_proxy.probe.finding import Finding
from svir_proxy.probe.subject import Subject

LEFT: Final = "leaving"
LONG: Final = "Count from one to two hundred in words, and leave none out."
_ROOM: Final = 300
_SLOW: Final = 3.0
"""Seconds that an answer of this length must take for the rest to tell."""


def leaving(subject: Subject) -> Dialogue:
    """A long stream that is left at its first output, and a short question behind it."""
    usual = yield from size(subject, "Count to one.")
    whole = yield subject.ask(LONG, room=_ROOM, stream=True)
    if whole.answer.seconds < _SLOW:
        yield unknown(LEFT, f"a long answer took {whole.answer.seconds:.1f} s, too short to tell")
        return
    yield subject.ask(LONG, room=_ROOM, stream=True, leave=True)
    behind = yield from size(subject, "Count to two.")
    told = f"a question takes {usual.answer.seconds:.1f} s, behind a stream that was left {behind.answer.seconds:.1f} s"
    if behind.answer.seconds > usual.answer.seconds + whole.answer.seconds / 2:
        yield Finding(LEFT, "goes on", f"{told}: it goes on generating for nobody")
    else:
        yield Finding(LEFT, "stops or has places", f"{told}: it stops, or has more places")


ABOUT_LEAVING: Final = (Question("a client that leaves", (LEFT,), leaving),)
