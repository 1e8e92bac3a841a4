"""A head that was read before: whoever speaks on a kept connection repeats it, and only the length differs.

llhttp calls back for each field, which is most of what reading a small message costs. What begins with the same bytes
up to the digits of its length, goes on with the same after them, and is as long as they say is the same message with
another body. Whatever else it may be is the parser's to find out, which stands between two messages meanwhile.
"""

from __future__ import annotations

import re
from typing import Final, Generic, TypeVar

T = TypeVar("T")
Headers = list[tuple[bytes, bytes]]

_NAME: Final = b"content-length"
_LENGTH: Final = re.compile(rb"\r\n%b:[ \t]*([0-9]+)(?=\r\n)" % _NAME, re.IGNORECASE)
_END: Final = b"\r\n\r\n"
_DIGITS: Final = 9
"""Of a length that is looked at here; a longer one is the parser's."""
_LONGEST: Final = 4096
"""Bytes of a head that is remembered: there may be one for each connection."""
_TRIES: Final = 4
"""Heads in a row that are learned and do not come again, after which none is learned any more: they tell the time."""


class HeadMemory(Generic[T]):
    """The last head on a connection that was read as a whole message in one read, framed by its length."""

    __slots__ = ("_after", "_before", "_headers", "_length_at", "_made", "_start", "_tries")

    def __init__(self) -> None:
        self._before: bytes | None = None
        self._tries = _TRIES

    def read(self, message: bytes) -> tuple[Headers, bytes, T] | None:
        """Headers and body of a *message* with the known head and what was made of that, which all of them share.

        None where the head is another, where the body is empty or not all there, and where anything follows.
        """
        before = self._before
        if before is None or not message.startswith(before):
            return None
        start = self._start
        end = message.find(b"\r", start, start + _DIGITS + 1)
        if end < 0 or not message.startswith(self._after, end):
            return None
        digits, begins = message[start:end], end + len(self._after)
        if not digits.isdigit() or not 0 < int(digits) == len(message) - begins:
            return None
        self._tries = _TRIES
        headers, at = self._headers.copy(), self._length_at
        headers[at] = (headers[at][0], digits)
        return headers, message[begins:], self._made

    def learn(self, message: bytes, body: bytes, headers: Headers, made: T) -> None:
        """Know the head of *message* again, which the parser read as just that and *body*, unless it is not usual."""
        size = len(message) - len(body)
        if not self._tries or not body or size > _LONGEST or message.find(_END, 0, size) != size - len(_END):
            return
        head = message[:size]
        found = _LENGTH.search(head)
        if found is None or int(found[1]) != len(body) or head.lower().count(b"\r\n" + _NAME) != 1:
            return
        self._tries -= 1
        self._before, self._after, self._start = head[: found.start(1)], head[found.end(1) :], found.start(1)
        self._headers, self._made = headers.copy(), made
        self._length_at = next(at for at, (name, _) in enumerate(headers) if name.lower() == _NAME)
