"""JSON that is small as text and large as objects is told before it is parsed.

``[],`` is three bytes, and sixty-four once it is a list: a body within its limit of bytes could take twenty times that
of memory. No request and no answer has millions of values; what is long in them is text.
"""

from __future__ import annotations

from typing import Final

MOST_VALUES: Final = 3_000_000
"""Values of one JSON text, commas in its strings included: some hundred megabytes as objects."""


def has_too_many_values(text: bytes | bytearray | str) -> bool:
    """Whether JSON *text* may hold more than `MOST_VALUES`; costs nothing where it is shorter than that."""
    if len(text) <= MOST_VALUES:
        return False
    if isinstance(text, str):
        return sum(map(text.count, ",[{")) > MOST_VALUES
    return sum(map(text.count, (b",", b"[", b"{"))) > MOST_VALUES
