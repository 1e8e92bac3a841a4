"""Inputs broken on purpose: the mutations of the test suite, with the controls in front left to chance."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from fuzz.controls import SIZE
from tests.support.mutations import broken


def broken_input(random: Random, data: bytes, others: Sequence[bytes], longest: int = 1 << 20) -> bytes:
    """*data* with its body broken in one to four ways, and now and then other controls; at most *longest* bytes."""
    controls, body = data[:SIZE].ljust(SIZE, b"\0"), data[SIZE:]
    if random.randrange(3) == 0:
        at = random.randrange(SIZE)
        controls = controls[:at] + random.randbytes(1) + controls[at + 1 :]
    body = broken(random, body, [random.choice(others)[SIZE:]], random.randrange(1, 5))
    return (controls + body)[:longest]
