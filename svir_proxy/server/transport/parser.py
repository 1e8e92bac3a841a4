"""Response bytes in, head and body bytes out: llhttp with the checks that it leaves to its user.

No I/O here. A fault of the server is a value (`ResponseParser.error`), so that the bytes before it still count.

llhttp refuses by itself: bare CR or LF, folded headers, blanks before a colon, control characters, several or
malformed content-lengths, a content-length beside a transfer-encoding, malformed chunks. Added here: transfer codings
other than one ``chunked``, versions other than 1.0 and 1.1, status codes below 100, size limits, HEAD, 101, bytes
after the response, the end of the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httptools
import httpx

from svir_proxy.known_head import Headers, HeadMemory

if TYPE_CHECKING:
    from svir_proxy.server.transport.limits import TransportLimits


class _Stop(Exception):  # noqa: N818 - it stops llhttp from within a callback and never leaves this module
    """What follows is of no interest, or already refused."""


class ResponseParser:
    """The responses of one connection, one after the other: `start`, then `feed` until `done`.

    The ``on_*`` members are httptools' interface and nobody else's.
    """

    __slots__ = (
        "_bodyless",
        "_counted",
        "_head_size",
        "_heads",
        "_llhttp",
        "_most_bytes",
        "_most_headers",
        "_pieces",
        "_sized",
        "_transfer_coded",
        "complete",
        "error",
        "head_complete",
        "headers",
        "is_encoded",
        "on_body",
        "reusable",
        "started",
        "status",
    )

    started: bool
    """Whether a byte of the response has arrived."""
    head_complete: bool
    status: int
    headers: Headers
    is_encoded: bool
    """Whether there is a content-encoding among the headers."""
    complete: bool
    """Whether the whole response has arrived."""
    reusable: bool
    """Whether the connection may carry another request, once `complete`."""
    error: httpx.TransportError | None
    """What ended the response before it was complete."""
    _sized: bool
    _transfer_coded: bool

    def __init__(self, limits: TransportLimits) -> None:
        self._most_bytes = limits.head_bytes
        self._most_headers = limits.headers
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append
        self._llhttp: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._heads: HeadMemory[tuple[int, bool]] = HeadMemory()  # status, and whether there is a content-encoding
        self.start()

    def start(self, *, head_request: bool = False) -> None:
        """Await a new response on the same connection; to a HEAD request it has no body, whatever its head says."""
        self._bodyless = head_request
        self._counted = self._head_size = self.status = 0
        self.headers = []
        self._sized = self._transfer_coded = self.is_encoded = False
        self.started = self.head_complete = self.complete = self.reusable = False
        self.error = None

    def discard(self) -> None:
        """Let go of llhttp, which refers back to this object: no garbage is left to the collector."""
        self._llhttp = None

    @property
    def done(self) -> bool:
        """Whether no more of this response can come."""
        return self.complete or self.error is not None

    def feed(self, data: bytes) -> bytes:
        """Take one read; give the body bytes in it, joined. Must not be called when `done`."""
        assert self._llhttp is not None
        is_new = not self.started
        if is_new:
            self.started = True
            if not self._bodyless and (known := self._heads.read(data)) is not None:
                self.headers, body, (self.status, self.is_encoded) = known
                self.head_complete = self.complete = self.reusable = True
                return body
        try:
            self._llhttp.feed_data(data)
        except httptools.HttpParserError as exc:
            # Past the end of the response a fault is no fault of the response: only the connection is spoilt.
            self.reusable = False
            if not self.done:
                self.error = httpx.RemoteProtocolError(f"the server's response is not valid HTTP: {exc}")
        pieces = self._pieces
        if pieces:
            self._counted = 0
            body = pieces.pop()
            if pieces:
                body = b"".join((*pieces, body))
                pieces.clear()
            if is_new and self.reusable:
                self._heads.learn(data, body, self.headers, (self.status, self.is_encoded))
            return body
        if not self.complete and self.error is None:
            # Heads, trailers and chunk extensions that never end: bytes come, but nothing comes of them.
            self._counted += len(data)
            if self._counted > self._most_bytes:
                self._refuse("a response head or trailer that is too long")
        return b""

    def end_of_input(self) -> None:
        """The server has ended its side of the connection in an orderly way; `done` afterwards."""
        if self.done:
            return
        if not self.started:
            self.error = httpx.RemoteProtocolError("the server closed the connection without a response")
        elif not self.head_complete:
            self.error = httpx.RemoteProtocolError("the server closed the connection in the middle of a response head")
        elif self._sized or self._transfer_coded:
            self.error = httpx.RemoteProtocolError("the server closed the connection in the middle of a response body")
        else:
            self.complete = True

    def on_message_begin(self) -> None:
        """A response begins, or bytes follow the one that was asked for."""
        if self.complete:
            raise _Stop

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field, or a trailer field, which nobody here reads."""
        if self.head_complete:
            return
        length, headers = len(name), self.headers
        headers.append((name, value))
        self._head_size += length + len(value)
        if self._head_size > self._most_bytes or len(headers) > self._most_headers:
            self._refuse("a response head that is too long")
            raise _Stop
        if length == 14 and name.lower() == b"content-length":
            self._sized = True
        elif length == 16 and name.lower() == b"content-encoding":
            self.is_encoded = True
        elif length == 17 and name.lower() == b"transfer-encoding":
            if self._transfer_coded or value.strip().lower() != b"chunked":
                self._refuse("a transfer coding other than chunked")
                raise _Stop
            self._transfer_coded = True

    def on_headers_complete(self) -> None:
        """The end of a head: of the response, or of an interim one, which is passed over."""
        assert self._llhttp is not None
        status = self._llhttp.get_status_code()
        if self._llhttp.get_http_version() not in {"1.1", "1.0"}:
            self._refuse("an HTTP version other than 1.0 and 1.1")
            raise _Stop
        if status < 100 or status == 101:
            self._refuse("a change of protocols that was not asked for" if status == 101 else "a status code below 100")
            raise _Stop
        if status < 200:
            return
        self.status = status
        self.head_complete = True
        if self._bodyless:
            # llhttp cannot be told that no body follows, so it stops here, and with it the connection's use.
            self.complete = True
            raise _Stop

    def on_message_complete(self) -> None:
        """The end of a response, or of an interim one."""
        if not self.head_complete:
            self._head_size, self.headers = 0, []
            self._sized = self._transfer_coded = self.is_encoded = False
            return
        assert self._llhttp is not None
        self.complete = True
        self.reusable = self._llhttp.should_keep_alive()

    def _refuse(self, what: str) -> None:
        self.error = httpx.RemoteProtocolError(f"the server sent {what}")
