"""A model server of a known capacity, which gets slower for everybody when it is asked for more.

So many answers at a time take each the same short time, as a batch does. Beyond that all share what there is, and the
more there are, the more is lost to managing them: caches that are evicted and computed again, swapped memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from tests.faults.wire import CHUNKED, JSON, LAST_CHUNK, chunk, dumps, head, sized

PIECES: Final = 10
"""Words of every answer."""
SLOWING: Final = 1.25
"""With n times as many answers at a time as it is made for, each takes n to the power of this as long."""
_LENGTH: Final = re.compile(rb"(?i)content-length: (\d+)")
_COMMON: Final = {"id": "chatcmpl-1", "created": 1700000000, "model": "m"}
_USAGE: Final = {"prompt_tokens": 3, "completion_tokens": PIECES, "total_tokens": 3 + PIECES}


def words(name: str) -> list[str]:
    """The answer to a request whose text is *name*, in its pieces; no two requests have the same."""
    return [name, *(f" {name}.{number}" for number in range(1, PIECES))]


class ModelServer:
    """The server, on a free port. *capacity* answers at a time take *seconds* each."""

    def __init__(self, capacity: int, seconds: float) -> None:
        self.capacity = capacity
        self.seconds = seconds
        self.running = 0
        """Answers that are being made."""
        self.most = 0
        """The most at a time since it was last set to 0."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def rate(self) -> float:
        """Answers a second at its best."""
        return self.capacity / self.seconds

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=4096)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self.hang_up()
        await self._server.wait_closed()

    async def hang_up(self) -> None:
        """Close every connection."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            # A cancellation is how `hang_up` ends it; this is the task's last work.
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while True:
                    lines = await reader.readuntil(b"\r\n\r\n")
                    length = _LENGTH.search(lines)
                    body = await reader.readexactly(int(length[1])) if length else b""
                    if lines.startswith(b"GET "):
                        writer.write(sized(dumps({"object": "list", "data": []}), media=JSON))
                    else:
                        await self._answer(json.loads(body), reader, writer)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _answer(
        self, request: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        pieces = words(request["messages"][-1]["content"])
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await (self._stream if request.get("stream") else self._whole)(pieces, reader, writer)
            await writer.drain()
        finally:
            self.running -= 1

    async def _stream(self, pieces: Sequence[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head(CHUNKED) + _event({"role": "assistant", "content": ""}))
        at = asyncio.get_running_loop().time()
        for piece in pieces:
            at = await self._turn(at, reader)
            writer.write(_event({"content": piece}))
        writer.write(_event({}, "stop") + chunk(b"data: [DONE]\n\n") + LAST_CHUNK)

    async def _whole(self, pieces: Sequence[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at = asyncio.get_running_loop().time()
        for _ in pieces:
            at = await self._turn(at, reader)
        message = {"role": "assistant", "content": "".join(pieces)}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        answer = {**_COMMON, "object": "chat.completion", "choices": choices, "usage": _USAGE}
        writer.write(sized(dumps(answer), media=JSON))

    async def _turn(self, at: float, reader: asyncio.StreamReader) -> float:
        """Take the time of one piece from *at* on; the time it is then. ConnectionError where nobody listens."""
        at += self.seconds / PIECES * max(1.0, self.running / self.capacity) ** SLOWING
        try:
            async with asyncio.timeout_at(at):
                await reader.read(1)  # what comes is the end: the proxy never asks again before it has its answer
        except TimeoutError:
            return at
        raise ConnectionResetError


def _event(delta: dict[str, str], finish: str | None = None) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return chunk(b"data: " + dumps({**_COMMON, "object": "chat.completion.chunk", "choices": choices}) + b"\n\n")
