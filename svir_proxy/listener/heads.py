"""Heads of messages: what is left out of a client's, and how a response's is written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, NamedTuple

_UPGRADE: Final = re.compile(rb"^upgrade[ \t]*:[^\r\n]*\r\n", re.IGNORECASE | re.MULTILINE)
_STATUS_LINES: Final = {status.value: b"HTTP/1.1 %d %b" % (status, status.phrase.encode()) for status in HTTPStatus}
_FRAMING: Final = frozenset({b"content-length", b"connection", b"transfer-encoding"})
_WITHOUT_BODY: Final = frozenset({204, 304})


class ResponseHead(NamedTuple):
    """A head, and how the body behind it is framed."""

    data: bytes
    """The head's bytes, without the lines that `closing` and chunks add, and without the empty line."""
    length: int | None
    """The body's bytes as the head declares them; None where it does not."""
    closes: bool
    """Whether the application wants the connection closed."""


def response_head(status: int, headers: Iterable[tuple[bytes, bytes]]) -> ResponseHead:
    """Write a head of *headers*, whose names are in lower case as ASGI has them.

    Raises ValueError for a header that would be something else on the wire.
    """
    parts = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status]
    breaks = 0
    length: int | None = 0 if status in _WITHOUT_BODY else None
    closes = False
    for name, value in headers:
        parts += (b"\r\n", name, b": ", value)
        breaks += 1
        if name in _FRAMING:
            if name == b"content-length":
                length = int(value)
            elif name == b"connection":
                closes = b"close" in value.lower()
            else:
                raise ValueError("the server frames the body itself")
    data = b"".join(parts)
    if data.count(b"\n") != breaks or data.count(b"\r") != breaks or b"\0" in data:
        raise ValueError("a header of the response holds a line break or NUL")
    return ResponseHead(data, length, closes)


def without_upgrade(data: bytes) -> bytes:
    """A read that begins with a head, without its ``Upgrade``.

    An offer to go on in another protocol is ignored, as HTTP has it: Java's own client offers h2c with every request,
    and httptools would drop the body behind such a head.
    """
    if b"\nupgrade" not in data.lower():
        return data
    head_end = data.find(b"\r\n\r\n") + 2
    end = head_end if head_end > 1 else len(data)
    return _UPGRADE.sub(b"", data[:end]) + data[end:] if _UPGRADE.search(data, 0, end) else data
