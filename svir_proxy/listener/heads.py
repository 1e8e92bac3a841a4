"""Heads of messages: what is read in a client's beside the parser, and how a response's is written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

_AUTHORITY: Final = re.compile(rb"[^:/?#]+://([^/?#]*)")
_STATUS_LINES: Final = {status.value: b"HTTP/1.1 %d %b" % (status, status.phrase.encode()) for status in HTTPStatus}
_FRAMING: Final = frozenset({b"content-length", b"connection", b"transfer-encoding"})
_WITHOUT_BODY: Final = frozenset({204, 304})


def response_head(status: int, headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, int | None, bool]:
    """Write a head of *headers*, whose names are in lower case as ASGI has them.

    Returns its bytes, without the lines that closing and chunks add and without the empty line; the bytes of the body
    as it declares them (None: it does not); and whether the application wants the connection closed. Raises ValueError
    for a header that would be something else on the wire.
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
    return data, length, closes


def request_head(method: bytes, target: bytes, version: str, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A request's head as it was parsed, without its ``Upgrade``."""
    lines = [b"%b %b HTTP/%b" % (method, target, version.encode("ascii"))]
    lines += [b"%b: %b" % field for field in headers if field[0] != b"upgrade"]
    return b"\r\n".join((*lines, b"", b""))


def authority(target: bytes) -> bytes:
    """The host and port of a request target that is a URL, as a ``Host`` has them."""
    found = _AUTHORITY.match(target)
    return b"" if found is None else found[1].rpartition(b"@")[2]
