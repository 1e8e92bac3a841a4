"""The client: a socket, and a reader of HTTP/1.1 that forgives nothing."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final, Self

from svir_proxy.conform.judge import Seen
from tests.faults.wire import dumps
from tests.server.transport.raw_server import soon

if TYPE_CHECKING:
    from tests.faults.upstream import Exchange

_STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n")
_FIELD: Final = re.compile(rb"([!#-'*+.^-z|~-]+): ?([\t -~\x80-\xff]*)\r\n")
_SIZE: Final = re.compile(rb"([0-9a-f]+)\r\n")


class HttpError(Exception):
    """The proxy sent what is no HTTP/1.1."""


class Client:
    """One connection to the proxy, for one request after the other. *fields*: lines of every head."""

    def __init__(self, port: int, fields: bytes = b"") -> None:
        self._port = port
        self._fields = fields

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def ask(self, body: dict[str, Any], exchange: Exchange) -> Seen:
        """Send a chat request and read the answer to its end; *exchange* is told what is seen, as it is seen."""
        self.send(dumps(body))
        return await self.answer(exchange)

    def send(self, content: bytes, line: bytes = b"POST /v1/chat/completions") -> None:
        """Send a request of JSON; *line*: its method and its path."""
        self._writer.write(
            b"%b HTTP/1.1\r\nHost: 127.0.0.1\r\n%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (line, self._fields, len(content), content)
        )

    async def answer(self, exchange: Exchange) -> Seen:
        """Read an answer to its end; *exchange* is told what is seen, as it is seen."""
        return await self.hear(exchange.body, exchange)

    async def hear(
        self, into: bytearray, exchange: Exchange | None = None, *, head: bool = False, to_end: bool = False
    ) -> Seen:
        """Read one answer, its body *into* there as it comes; *exchange* is told of its status.

        *head*: it answers a HEAD. *to_end*: its body may end with the connection. One of 1xx has no body.
        """
        status, headers = _read_head(await soon(self._reader.readuntil(b"\r\n\r\n")), to_end=to_end)
        if exchange is not None:
            exchange.status = status
        try:
            if status < 200 or head:
                pass
            elif headers.get("transfer-encoding") == "chunked":
                await self._read_chunks(into)
            elif "content-length" in headers:
                into += await soon(self._reader.readexactly(int(headers["content-length"])))
            else:
                into += await soon(self._reader.read())
        except asyncio.IncompleteReadError as exc:
            into += exc.partial
            return Seen(status, headers, bytes(into), clean=False)
        return Seen(status, headers, bytes(into))

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


def _read_head(head: bytes, *, to_end: bool = False) -> tuple[int, dict[str, str]]:
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
    framings = ("transfer-encoding" in headers) + ("content-length" in headers)
    if framings != 1 and not (framings == 0 and (to_end or found[1].startswith(b"1"))):
        raise HttpError(f"no framing, or two: {head!r}")
    return int(found[1]), headers
