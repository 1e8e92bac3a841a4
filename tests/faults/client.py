"""The client: a socket, and a reader of HTTP/1.1 that forgives nothing."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final, Self

from tests.faults.wire import dumps
from tests.server.transport.raw_server import soon
from tests.support.judge import Seen

if TYPE_CHECKING:
    from tests.faults.upstream import Exchange

_STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n")
_FIELD: Final = re.compile(rb"([!#-'*+.^-z|~-]+): ?([\t -~\x80-\xff]*)\r\n")
_SIZE: Final = re.compile(rb"([0-9a-f]+)\r\n")


class HttpError(Exception):
    """The proxy sent what is no HTTP/1.1."""


class Client:
    """One connection to the proxy, for one request after the other."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def ask(self, body: dict[str, Any], exchange: Exchange) -> Seen:
        """Send a chat request and read the answer to its end; *exchange* is told what is seen, as it is seen."""
        content = dumps(body)
        self._writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(content), content)
        )
        head = await soon(self._reader.readuntil(b"\r\n\r\n"))
        status, headers = _read_head(head)
        exchange.status = status
        try:
            if headers.get("transfer-encoding") == "chunked":
                await self._read_chunks(exchange.body)
            else:
                exchange.body += await soon(self._reader.readexactly(int(headers["content-length"])))
        except asyncio.IncompleteReadError as exc:
            exchange.body += exc.partial
            return Seen(status, headers, bytes(exchange.body), clean=False)
        return Seen(status, headers, bytes(exchange.body))

    async def _read_chunks(self, into: bytearray) -> None:
        size = -1
        while size:
            line = await soon(self._reader.readline())
            if not line.endswith(b"\n"):
                raise asyncio.IncompleteReadError(line, None)
            found = _SIZE.fullmatch(line)
            if found is None:
                raise HttpError(f"a chunk size of {line!r}")
            size = int(found[1], 16)
            data = await soon(self._reader.readexactly(size + 2))
            if data[-2:] != b"\r\n":
                raise HttpError(f"a chunk that ends with {data[-2:]!r}")
            into += data[:-2]


def _read_head(head: bytes) -> tuple[int, dict[str, str]]:
    found = _STATUS.match(head)
    if found is None:
        raise HttpError(f"a status line of {head[:80]!r}")
    headers: dict[str, str] = {}
    at = found.end()
    while head[at:] != b"\r\n":
        line = _FIELD.match(head, at)
        if line is None:
            raise HttpError(f"a field of {head[at : at + 80]!r}")
        name = line[1].decode().lower()
        if name in headers:
            raise HttpError(f"two fields of {name}")
        headers[name] = line[2].decode("latin-1").strip()
        at = line.end()
    if ("transfer-encoding" in headers) == ("content-length" in headers):
        raise HttpError(f"no framing, or two: {head!r}")
    return int(found[1]), headers
