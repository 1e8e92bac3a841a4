"""A head that was read before: whoever speaks on a kept connection repeats it, and only the length differs.

llhttp calls back for each field, which is most of what reading a small message costs. What begins with the same bytes
up to the digits of its length, goes on with the same after them, and is as long as they say is the same message with
another body. Whatever else it may be is the parser's to find out.
"""

from __future__ import annotations

import re
from typing import Final, Self

_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)(?=\r\n)", re.IGNORECASE)
_END: Final = b"\r\n\r\n"
_DIGITS: Final = 9
"""Of a length, at most: no read holds more than so many bytes say."""
_LONGEST: Final = 4096
"""Bytes of a head that is remembered: there is one for each connection."""


class KnownHead:
    """The head of a message that is framed by its length, without that."""

    __slots__ = ("_after", "_before", "_start")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after
        self._start = len(before)

    @classmethod
    def of(cls, message: bytes, body: bytes) -> Self | None:
        """The head of *message*, which was read as just that and *body*; None where it is no such head."""
        size = len(message) - len(body)
        if not body or size > _LONGEST or message.find(_END, 0, size) != size - len(_END):
            return None
        head = message[:size]
        found = _LENGTH.search(head)
        if found is None or int(found[1]) != len(body) or head.lower().count(b"\r\ncontent-length") != 1:
            return None
        return cls(head[: found.start(1)], head[found.end(1) :])

    def body_of(self, message: bytes) -> bytes | None:
        """The body of *message*, which is not empty, if this is its head and nothing follows; else None."""
        start = self._start
        if not message.startswith(self._before):
            return None
        end = message.find(b"\r", start, start + _DIGITS + 1)
        if end < 0 or not message.startswith(self._after, end):
            return None
        digits, begins = message[start:end], end + len(self._after)
        if not digits.isdigit() or not 0 < int(digits) == len(message) - begins:
            return None
        return message[begins:]
