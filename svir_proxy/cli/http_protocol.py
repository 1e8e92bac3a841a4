"""uvicorn's HTTP protocol, and what it leaves to a server in front of it.

An offer to go on in another protocol is ignored, as HTTP has it: Java's own client offers h2c with every request, and
httptools would drop the body behind such a head.

What is no HTTP gets the error envelope and an id as everything else does. And heads have an end: uvicorn keeps every
field of a head or a trailer, and httptools half a field, for as long as the bytes come, before anybody shows a key.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from svir_proxy.errors import ProxyError

if TYPE_CHECKING:
    import asyncio

_UPGRADE: Final = re.compile(rb"^upgrade[ \t]*:[^\r\n]*\r\n", re.IGNORECASE | re.MULTILINE)
MAX_WAITING: Final = 64 * 1024
"""Bytes of a connection that may come without completing a head or adding to a body. One read more may be held."""


class HttpProtocol(HttpToolsProtocol):
    """One client's connection."""

    transport: asyncio.Transport

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting = 0
        self._progress = False
        self._in_body = False

    def data_received(self, data: bytes) -> None:
        """One read."""
        self._progress = False
        super().data_received(data if self._in_body else _without_upgrade(data))
        self._waiting = 0 if self._progress else self._waiting + len(data)
        if self._waiting > MAX_WAITING and not self.transport.is_closing():
            self.send_400_response("The head or the trailer of the request is too long.")

    def on_headers_complete(self) -> None:
        """A head is complete."""
        self._progress = self._in_body = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of a body."""
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is complete."""
        self._in_body = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Tell what is wrong with the bytes, and close."""
        error = ProxyError("invalid_request", msg)
        body = error.body()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
            (b"x-request-id", os.urandom(16).hex().encode("ascii")),
            *error.headers(),
        ]
        head = b"".join(b"%b: %b\r\n" % header for header in headers)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + head + b"\r\n" + body)
        self.transport.close()


def _without_upgrade(data: bytes) -> bytes:
    """A read that begins with a head, without its ``Upgrade``."""
    head_end = data.find(b"\r\n\r\n") + 2
    end = head_end if head_end > 1 else len(data)
    return _UPGRADE.sub(b"", data[:end]) + data[end:] if _UPGRADE.search(data, 0, end) else data
