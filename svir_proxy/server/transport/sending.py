"""Request bodies on their way out: in slices, no faster than the server takes them, and no further than it listens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from svir_proxy.server.transport.head import Outgoing

SLICE: Final = 256 * 1024
"""Bytes given to the loop at once. Larger contents are never copied as a whole."""


class Channel(Protocol):
    """The connection as the sender sees it."""

    @property
    def answered(self) -> bool:
        """The response has begun, or none will come: nothing more needs to be sent."""

    def write(self, data: bytes | memoryview) -> None:
        """Hand bytes to the loop."""

    async def drained(self, seconds: float | None) -> None:
        """Return when more may be written or `answered`; raise WriteTimeout after *seconds* of neither."""


async def send(channel: Channel, out: Outgoing, seconds: float | None) -> bool:
    """Write head and content of *out*. False: the server answered first, and the rest was left unsent.

    *seconds* bound each wait for the server to take more. Raises WriteTimeout, LocalProtocolError when a stream does
    not have the length it declared, and whatever the stream raises.
    """
    channel.write(out.head)
    if isinstance(out.content, bytes):
        if out.length is not None:
            return await _write(channel, out.content, seconds)
        return await _chunk(channel, out.content, seconds) and await _last_chunk(channel, seconds)
    return await _stream(channel, out.content, out.length, seconds)


async def send_listening(channel: Channel, out: Outgoing, seconds: float | None, head: asyncio.Future[Any]) -> bool:
    """`send` for streams, which may be waiting for their own source when *head*, the response's, is there already."""
    sender = asyncio.get_running_loop().create_task(send(channel, out, seconds))
    try:
        await asyncio.wait((sender, head), return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not sender.done():
            sender.cancel()
            await asyncio.wait((sender,))
        if not sender.cancelled():
            sender.exception()  # seen, also where nobody waits for the answer any more
    if head.done() and (sender.cancelled() or sender.exception() is not None):
        return False
    return sender.result()


async def _stream(channel: Channel, stream: AsyncIterable[bytes], length: int | None, seconds: float | None) -> bool:
    sent = 0
    pieces = aiter(stream)
    try:
        async for piece in pieces:
            sent += len(piece)
            if length is not None and sent > length:
                raise httpx.LocalProtocolError("the request body is longer than its content-length")
            if not await (_chunk if length is None else _write)(channel, piece, seconds):
                return False
    finally:
        if (close := getattr(pieces, "aclose", None)) is not None:
            await close()
    if length is None:
        return await _last_chunk(channel, seconds)
    if sent < length:
        raise httpx.LocalProtocolError("the request body is shorter than its content-length")
    return True


async def _chunk(channel: Channel, piece: bytes, seconds: float | None) -> bool:
    if not piece:  # an empty chunk would be the last one
        return not channel.answered
    channel.write(b"%x\r\n" % len(piece))
    return await _write(channel, piece, seconds) and await _write(channel, b"\r\n", seconds)


async def _last_chunk(channel: Channel, seconds: float | None) -> bool:
    return await _write(channel, b"0\r\n\r\n", seconds)


async def _write(channel: Channel, data: bytes, seconds: float | None) -> bool:
    if len(data) <= SLICE:
        if channel.answered:
            return False
        channel.write(data)
        await channel.drained(seconds)
        return True
    view = memoryview(data)
    for start in range(0, len(view), SLICE):
        if channel.answered:
            return False
        channel.write(view[start : start + SLICE])
        await channel.drained(seconds)
    return True
