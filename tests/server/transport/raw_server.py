"""A server that speaks bytes: the test holds both ends, and says what each does next.

Nothing here knows HTTP beyond where a request ends. Each await is bounded, so that a fault fails instead of hanging.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import struct
import subprocess
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    import httpx

T = TypeVar("T")

HANG = 20.0
"""Seconds after which an await counts as hanging. No test waits for it to pass."""


async def soon(awaitable: Awaitable[T]) -> T:
    """The result of *awaitable*, or a failed test."""
    async with asyncio.timeout(HANG):
        return await awaitable


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until *condition* holds: for what a test can see, but nobody announces."""
    async with asyncio.timeout(HANG):
        while not condition():  # noqa: ASYNC110 - no event is there to be awaited
            await asyncio.sleep(0)


class Peer:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def head(self) -> bytes:
        """A request head."""
        return await soon(self._reader.readuntil(b"\r\n\r\n"))

    async def read(self, count: int) -> bytes:
        """Exactly *count* bytes."""
        return await soon(self._reader.readexactly(count))

    async def request(self) -> bytes:
        """A request with a content-length, or without a body."""
        head = await self.head()
        length = re.search(rb"(?i)content-length: (\d+)", head)
        return head + await self.read(int(length[1])) if length else head

    async def send(self, data: bytes) -> None:
        """Send *data*, as fast as it is taken."""
        self._writer.write(data)
        await soon(self._writer.drain())

    async def answer(self, data: bytes) -> bytes:
        """Await a request, then send *data*."""
        request = await self.request()
        await self.send(data)
        return request

    async def gone(self) -> bytes:
        """Await the end of the connection from the other side; what came before it."""
        parts = []
        try:
            while part := await soon(self._reader.read(65536)):
                parts.append(part)
        except ConnectionResetError:
            pass
        return b"".join(parts)

    def end(self) -> None:
        """Close in an orderly way."""
        self._writer.close()

    def now(self, data: bytes | None) -> None:
        """Send *data*, or the end, before the loop turns again."""
        with socket.socket(fileno=os.dup(self._writer.get_extra_info("socket").fileno())) as sock:
            if data is None:
                sock.shutdown(socket.SHUT_WR)
            else:
                sock.send(data)

    def cut(self) -> None:
        """Close the socket without a word of TLS about it."""
        self._writer.transport.abort()

    def reset(self) -> None:
        """Close as a crash does."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def wait_closed(self) -> None:
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await soon(self._writer.wait_closed())


class RawServer:
    """Listens on loopback. `accepted` counts connections; `accept` gives them in order."""

    def __init__(self) -> None:
        self.accepted = 0
        self.port = 0
        self.names: list[str | None] = []
        """The server names that TLS clients asked for."""
        self._server: asyncio.Server | None = None
        self._waiting: asyncio.Queue[Peer] = asyncio.Queue()
        self._peers: list[Peer] = []

    async def start(self, context: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0, ssl=context, backlog=2048)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for peer in self._peers:
            await peer.wait_closed()

    async def accept(self) -> Peer:
        """The next connection."""
        return await soon(self._waiting.get())

    def url(self, scheme: str = "http", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{host}:{self.port}/v1/chat/completions"

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        peer = Peer(reader, writer)
        self._peers.append(peer)
        self._waiting.put_nowait(peer)


async def body_of(response: httpx.Response) -> bytes:
    """The whole body, pulled; the response is closed."""
    try:
        return b"".join([piece async for piece in response.stream])  # type: ignore[union-attr]
    finally:
        await response.aclose()


class Certificate:
    """A throwaway certificate that is its own authority."""

    def __init__(self, folder: Path, names: str = "DNS:localhost,IP:127.0.0.1") -> None:
        self.key, self.pem = folder / "key.pem", folder / "certificate.pem"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        command += ["-days", "2", "-subj", "/CN=localhost", "-addext", f"subjectAltName={names}"]
        subprocess.run([*command, "-keyout", self.key, "-out", self.pem], check=True, capture_output=True)
