"""ASGI messages sent from callbacks of the loop, without a task per message.

The ``send`` of an ASGI server is a coroutine that usually never waits; driven by hand it costs a function call, where
a task costs a switch of the loop. When it does wait - the client is slower than the model - a task finishes it, and
what comes meanwhile is queued; the source of it is held back, so the queue stays as short as one read. A server whose
``send`` is no coroutine gets such a task for every message.

The proxy's own listener takes the head and the pieces of a stream without any of that, as long as the client keeps up.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Protocol

from starlette.types import Message, Send

from svir_proxy.server.http import ClientGone, Headers


class Source(Protocol):
    """Where what is sent comes from."""

    def pause(self) -> None:
        """The client is behind."""

    def resume(self) -> None:
        """It has caught up."""


class Sender:
    """Sends the messages of one response, in order, and tells their source whether the client takes them."""

    __slots__ = (
        *("_broken", "_loop", "_make_head", "_opening", "_pump", "_queue", "_send"),
        *("_write_opening", "_write_piece", "_write_start", "source"),
    )

    def __init__(self, send: Send) -> None:
        self._send = send
        # Found on `send` itself, so that whatever stands between the application and the listener is not passed over.
        listener = getattr(send, "__self__", None)
        self._write_start: Callable[[int, Headers], bool] = getattr(listener, "write_start", _never)
        self._write_piece: Callable[[bytes], bool] = getattr(listener, "write_piece", _never)
        self._make_head: Callable[[int, Headers], bytes] = getattr(listener, "stream_head", _unknown)
        self._write_opening: Callable[[bytes, bytes], bool] = getattr(listener, "write_opening", _never)
        self._opening: tuple[bytes, int, Headers]  # see `prepare`
        self._loop = asyncio.get_running_loop()
        self.source: Source | None = None
        """What is held back while the client is behind; to be None again once nothing more comes from there."""
        self._queue: deque[Message] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._broken: BaseException | None = None

    @property
    def is_blocked(self) -> bool:
        """Whether the client has yet to take what was sent."""
        return self._pump is not None

    def begin(self, status: int, headers: Headers) -> None:
        """Send the beginning of the response."""
        if self._pump is None and self._broken is None:
            try:
                if self._write_start(status, headers):
                    return
            except Exception as exc:  # noqa: BLE001 - see send
                self._broken = exc
                return
        self.send({"type": "http.response.start", "status": status, "headers": headers})

    def prepare(self, status: int, headers: Headers) -> None:
        """Have ready what `open` begins with; nothing is sent yet, and no fault is told."""
        self._opening = self._make_head(status, headers), status, headers

    def open(self, body: bytes) -> None:
        """Send what was prepared and the first piece of the body, as `begin` and `write` do."""
        head, status, headers = self._opening
        if not head or self._pump is not None or self._broken is not None or not self._write_opening(head, body):
            self.begin(status, headers)
            self.write(body)

    def write(self, body: bytes) -> None:
        """Send a piece of the body, which is not the last."""
        if self._pump is not None or self._broken is not None or not self._write_piece(body):
            self.send({"type": "http.response.body", "body": body, "more_body": True})

    def send(self, message: Message) -> None:
        """Send *message* now, or after those that wait. After a fault of the server nothing is sent any more."""
        if self._broken is not None:
            return
        if self._pump is not None:
            self._queue.append(message)
            return
        sending = self._send(message)
        if type(sending) is not types.CoroutineType and not isinstance(sending, Coroutine):
            self._block(_awaited(sending))
            return
        try:
            waited = sending.send(None)
        except StopIteration:
            return
        except Exception as exc:  # noqa: BLE001 - whatever the server raises, the client cannot be reached any more
            self._broken = exc
            return
        self._block(_resumed(sending, waited))

    async def drained(self) -> None:
        """Wait until everything is sent; raises ClientGone where it could not be."""
        while self._pump is not None:
            await asyncio.shield(self._pump)
        if self._broken is not None:
            raise ClientGone from self._broken

    def cancel(self) -> None:
        """The client is gone: what waits is not sent."""
        self._broken = ClientGone()
        self._queue.clear()
        pump, self._pump = self._pump, None
        if pump is not None:
            self._loop.call_soon(pump.cancel)  # not before its first step: what it is to await would never begin

    def _block(self, sending: Generator[Any, Any, None] | Coroutine[Any, Any, None]) -> None:
        self._pump = self._loop.create_task(self._finish(sending))
        if self.source is not None:
            self.source.pause()

    async def _finish(self, sending: Any) -> None:
        try:
            await sending
            while self._queue:
                await self._send(self._queue.popleft())
        except Exception as exc:  # noqa: BLE001 - see send
            self._broken = exc
            self._queue.clear()
        finally:
            self._pump = None
        if self.source is not None:
            self.source.resume()


def _never(*_: object) -> bool:
    return False


def _unknown(*_: object) -> bytes:
    return b""


async def _awaited(sending: Any) -> None:
    await sending


@types.coroutine
def _resumed(sending: Coroutine[Any, Any, None], waited: Any) -> Generator[Any, Any, None]:
    """A coroutine that has been driven up to the future *waited*, from there on."""
    try:
        while True:
            try:
                value = yield waited
            except BaseException as exc:  # noqa: BLE001 - cancellation and all else belong to the coroutine
                waited = sending.throw(exc)
            else:
                waited = sending.send(value)
    except StopIteration:
        return
