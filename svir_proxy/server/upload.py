"""The body of a client's request on its way to a server: looked at for its model, then passed on as it comes.

What is small is read whole, so that it may go over a connection that was used before. Of the rest no more is held
than it takes to find the model, and then one piece at a time: the server's pace is the client's.
"""

from __future__ import annotations

import asyncio
from typing import Final, Self

import httpx
from starlette.types import Message, Receive

from svir_proxy.errors import ProxyError
from svir_proxy.request.model_field import ModelField
from svir_proxy.server.http import ClientGone, too_large

_SMALL: Final = 64 * 1024
"""Bytes up to which a body is read whole in any case."""
_LOOK: Final = 32 * 2**20
"""Bytes in which the model has to stand: more than the 25 MB that OpenAI takes as a file, which often comes first."""


class Upload(httpx.AsyncByteStream):
    """One body. `look`, then `put`, then either `content` is bytes, or it is this stream, to be read once.

    *declared* is the length that the client named, if it did; *limit* the most bytes that there may be.
    """

    def __init__(self, receive: Receive, field: ModelField, declared: int | None, limit: int) -> None:
        self._receive = receive
        self._field = field
        self._declared = declared
        self._limit = limit
        self._held = bytearray()
        self._first = b""  # what was held, as it goes out
        self._came = 0
        self._more = True
        self._ended = asyncio.Event()
        self.length = declared
        """Bytes that go out, where that is known."""
        if declared is not None and declared > limit:
            raise too_large(limit)

    @property
    def model(self) -> str:
        """The model that the client named."""
        return self._field.model

    @property
    def is_whole(self) -> bool:
        """Whether all of it has come."""
        return not self._more

    @property
    def came(self) -> int:
        """Bytes that have come."""
        return self._came

    @property
    def content(self) -> bytes | Self:
        """The body as it goes out: all of it, or what it is to be read from."""
        return self if self._more else self._first

    async def look(self) -> None:
        """Read until the model is known. Raises ProxyError, and ClientGone."""
        field, held = self._field, self._held
        while self._more and (field.span is None or len(held) <= _SMALL):
            held += await self._next()
            if field.span is None and len(held) > _LOOK:
                raise ProxyError(
                    "invalid_request",
                    f"The first {_LOOK >> 20} MiB of the request have no 'model': put it before what is large.",
                    param="model",
                )

    def put(self, model: str) -> bool:
        """Put *model* (``""``: any) in the place of what the client named; whether that changed anything.

        Again for another server, as long as nothing was read of the stream.
        """
        span, held = self._field.span, self._held
        if span is None or model in ("", self.model):
            changed, self._first = False, bytes(held)
        else:
            view = memoryview(held)
            changed, self._first = True, b"".join((view[: span[0]], self._field.written(model), view[span[1] :]))
            view.release()
        if not self._more:
            self.length = len(self._first)
            self._ended.set()
        elif self._declared is not None:
            self.length = self._declared - self._came + len(self._first)
        return changed

    def __aiter__(self) -> Self:
        """The pieces that go out."""
        return self

    async def __anext__(self) -> bytes:
        """The next piece, as soon as it has come. Raises what `look` raises."""
        if self._first:
            piece, self._first, self._held = self._first, b"", bytearray()
            return piece
        if not self._more:
            self._ended.set()
            raise StopAsyncIteration
        return await self._next()

    async def aclose(self) -> None:
        """Nobody wants more of it."""
        self._ended.set()

    async def after(self) -> Message:
        """`receive` for who waits for the client to leave: not before the upload is over, which hears of it itself."""
        await self._ended.wait()
        return await self._receive()

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        data: bytes = message.get("body", b"")
        self._came += len(data)
        if self._came > self._limit:
            raise too_large(self._limit)
        self._field.feed(data)
        if not message.get("more_body", False):
            self._field.end()
            self._more = False
        return data
