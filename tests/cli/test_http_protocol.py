"""What a client may send that is no request, or none that ends."""

from __future__ import annotations

import asyncio
from itertools import chain, cycle
from typing import Any, Final

import pytest
import uvicorn
from uvicorn.server import ServerState

from svir_proxy.cli.http_protocol import MAX_WAITING, HttpProtocol
from tests.dialect import check_dialect


class Wire(asyncio.Transport):
    """A connection that is written to."""

    def __init__(self) -> None:
        super().__init__()
        self.said = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.said += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        """More comes all the same."""

    def resume_reading(self) -> None:
        """It never paused."""


async def read_and_answer(scope: Any, receive: Any, send: Any) -> None:
    """Take the body; say how long it was."""
    del scope
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    said = b"%d" % size
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]})
    await send({"type": "http.response.body", "body": said})


def connection() -> tuple[HttpProtocol, Wire]:
    config = uvicorn.Config(read_and_answer, http=HttpProtocol, lifespan="off", log_config=None, log_level="critical")
    config.load()
    made, wire = HttpProtocol(config=config, server_state=ServerState(), app_state={}), Wire()
    made.connection_made(wire)
    return made, wire


POST: Final = b"POST / HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED: Final = POST + b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n"
KIB: Final = b"b" * 1024

# name: (what it begins with, what comes over and over)
REFUSED: Final[dict[str, tuple[bytes, bytes]]] = {
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b""),
    "an unknown method": (b"FOO / HTTP/1.1\r\n\r\n", b""),
    "bytes in the path": (b"GET /\xff HTTP/1.1\r\n\r\n", b""),
    "a path without end": (b"GET /", KIB),
    "a field without end": (POST + b"x-a: ", KIB),
    "fields without end": (POST, b"x-a: %b\r\n" % KIB),
    "a trailer without end": (CHUNKED + b"0\r\n", b"x-a: %b\r\n" % KIB),
    "a chunk's extension without end": (CHUNKED + b"1;", KIB),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused(name: str) -> None:
    begin, more = REFUSED[name]
    made, wire = connection()
    sent = 0
    for piece in chain([begin], cycle([more])):
        if wire.closed:
            break
        made.data_received(piece)
        sent += len(piece)
    assert sent < MAX_WAITING + 2 * len(more) + len(begin)
    head, _, body = wire.said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nx-request-id: " in head
    assert b"\r\nx-should-retry: false" in head
    assert check_dialect.check_error(body) == []
    made.connection_lost(None)


H2C: Final = POST + b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAE\r\n"
JAVA: Final = H2C + b"Upgrade: h2c\r\ncontent-length: 1024\r\n\r\n"

# name: (pieces, bytes of the body)
ANSWERED: Final[dict[str, tuple[list[bytes], int]]] = {
    "a long head": ([POST, *[b"x-a: %b\r\n" % KIB] * 60, b"\r\n"], 0),
    "a body": ([POST, b"content-length: 204800\r\n\r\n", *[KIB] * 200], 204800),
    "an offer of h2c": ([JAVA + KIB], 1024),
    "an offer of h2c, and the body later": ([JAVA, KIB], 1024),
    "an offer of h2c in the last field": ([H2C + b"transfer-encoding: chunked\r\nUPGRADE : h2c\r\n\r\n0\r\n\r\n"], 0),
    "words of an offer in the body": ([H2C + b"content-length: 16\r\n\r\n", b"\r\nUpgrade: h2c\r\n"], 16),
    "the same in one piece": ([H2C + b"content-length: 16\r\n\r\n\r\nUpgrade: h2c\r\n"], 16),
    "a chunked body": ([CHUNKED, *[b"400\r\n", KIB, b"\r\n"] * 200, b"0\r\n\r\n"], 204801),
}


@pytest.mark.parametrize("name", ANSWERED)
async def test_answered(name: str) -> None:
    pieces, size = ANSWERED[name]
    made, wire = connection()
    for piece in pieces:
        made.data_received(piece)
        await asyncio.sleep(0)
    if made.tasks:
        await asyncio.wait(made.tasks)
    assert wire.said.endswith(b"\r\n\r\n%d" % size)
    assert not wire.closed
    made.connection_lost(None)
