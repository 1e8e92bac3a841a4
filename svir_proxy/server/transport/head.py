"""An `httpx.Request` as the bytes of its head, and what follows it.

Nothing that came from a client can end a line here: a request target or a header that holds CR, LF or NUL (or
anything else that HTTP does not allow there) is refused before a connection is taken.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Mapping

Origin = tuple[bytes, bytes, int]
"""Scheme, host and port."""

ONE_WRITE: Final = 64 * 1024
"""Bytes up to which a content is copied behind its head, to leave in one segment and one system call."""

_PORTS: Final = {b"http": 80, b"https": 443}
_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_FIELD: Final = _TOKEN + rb": [\t\x20-\x7e\x80-\xff]*+\r\n"
_FIELDS: Final = rb"(?:(?>" + _FIELD + rb"))*+"
_LINES: Final = re.compile(_FIELDS)
_HEAD: Final = re.compile(_TOKEN + rb" [\x21-\x7e]++ HTTP/1\.1\r\n" + _FIELDS + rb"\r\n")


class Outgoing(NamedTuple):
    """A request ready to be written."""

    head: bytes
    content: bytes | AsyncIterable[bytes]
    length: int | None
    """Bytes of the content; None: it is sent in chunks."""
    last: bool
    """Whether the head says that the connection is not to be used again."""

    @property
    def one_write(self) -> bytes:
        """Head and content, where the content is at hand and small enough to be copied; else nothing."""
        if isinstance(self.content, bytes) and self.length is not None and self.length <= ONE_WRITE:
            return self.head + self.content
        return b""


def origin_of(url: httpx.URL) -> Origin:
    """Where *url* leads; raises UnsupportedProtocol."""
    scheme = url.raw_scheme
    if scheme not in _PORTS:
        raise httpx.UnsupportedProtocol("only http and https can be spoken")
    return scheme, url.raw_host, url.port or _PORTS[scheme]


class PostHead(NamedTuple):
    """The head of requests that differ in nothing but their content: checked once, written many times."""

    origin: Origin
    lines: bytes
    last: bool

    def outgoing(self, content: bytes) -> Outgoing:
        """The request with *content*."""
        length = len(content)
        return Outgoing(self.lines + b"content-length: %d\r\n\r\n" % length, content, length, self.last)

    def adding(self, headers: Mapping[str, str]) -> PostHead:
        """This head with *headers* of one request alone; raises LocalProtocolError where one of them is none."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1", "replace")
        if _LINES.fullmatch(lines) is None or lines.count(b"\n") != len(headers):
            raise httpx.LocalProtocolError("a header holds a character HTTP forbids")
        return self._replace(lines=self.lines + lines)


def post_head(url: httpx.URL, headers: httpx.Headers) -> PostHead:
    """The head of a POST to *url*; raises what `outgoing` and `origin_of` raise."""
    request = httpx.Request("POST", url, headers=headers)
    del request.headers["content-length"]
    head, _, _, last = outgoing(request)
    return PostHead(origin_of(url), head[:-2], last)


def outgoing(request: httpx.Request) -> Outgoing:
    """Write the head of *request* and settle how its body is framed.

    Content is bytes when httpx has it all, else the stream. Raises LocalProtocolError for a head that is not valid
    HTTP, contradictory lengths, or bytes that do not match their content-length.
    """
    content = _content(request)
    parts = [request.method.encode("ascii", "replace"), b" ", request.url.raw_path, b" HTTP/1.1\r\n"]
    lines = 2
    length: int | None = None
    chunked = hosted = last = colon = False
    for name, value in request.headers.raw:
        parts += (name, b": ", value, b"\r\n")
        lines += 1
        colon = colon or b":" in name
        # The length tells most names apart without another copy of each.
        if len(name) == 14 and name.lower() == b"content-length":
            if length is not None or not value.isdigit():
                raise httpx.LocalProtocolError("the request needs one content-length of digits")
            length = int(value)
        elif len(name) == 17 and name.lower() == b"transfer-encoding":
            if chunked or value.lower() != b"chunked":
                raise httpx.LocalProtocolError("the only transfer coding of requests is chunked")
            chunked = True
        elif len(name) == 4 and name.lower() == b"host":
            if hosted:
                raise httpx.LocalProtocolError("the request names two hosts")
            hosted = True
        elif len(name) == 10 and name.lower() == b"connection":
            last = last or b"close" in value.lower()
    if not hosted:
        parts += (b"host: ", request.url.netloc, b"\r\n")
        lines += 1
    if length is not None and chunked:
        raise httpx.LocalProtocolError("the request has both a content-length and a transfer coding")
    if isinstance(content, bytes) and not chunked:
        if length is None and content:
            parts.append(b"content-length: %d\r\n" % len(content))
            lines += 1
        elif length is not None and length != len(content):
            raise httpx.LocalProtocolError("the request body does not have its content-length")
        length = len(content)
    elif length is None and not chunked:
        parts.append(b"transfer-encoding: chunked\r\n")
        lines += 1
    parts.append(b"\r\n")
    head = b"".join(parts)
    # The pattern alone would take a smuggled line for a header, and a name with a colon for a name and its value.
    if colon or _HEAD.fullmatch(head) is None or head.count(b"\n") != lines:
        raise httpx.LocalProtocolError("the request line or a header holds a character HTTP forbids")
    return Outgoing(head, content, length, last)


def _content(request: httpx.Request) -> bytes | AsyncIterable[bytes]:
    try:
        return request.content
    except httpx.RequestNotRead:
        if not isinstance(request.stream, httpx.AsyncByteStream):
            raise httpx.LocalProtocolError("the request body cannot be read asynchronously") from None
        return request.stream
