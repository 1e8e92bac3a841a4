"""ASGI messages sent from callbacks of the loop, where no task is at work.

The proxy's own listener takes the head and the pieces of a stream as bytes, as long as the client keeps up. All else is
its ``send``, a coroutine that needs no task: driven by hand it costs a function call, where a task costs a switch of
the loop. When it waits - the client is slower than the model - a task finishes it, and what comes meanwhile is queued;
the source of it is held back, so the queue stays as short as one read.

Of any other ``send`` nobody knows what it does: a time limit or a lock in it wants the task that it runs in. A task
sends what there is, one message after the other.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, Final, Protocol

from starlette.types import Message, Send

from svir_proxy.server.http import ClientGone, Headers
from svir_proxy.server.own_listener import listener_of

_MOMENT: Final = 1.0
"""Seconds that another server may take for the last words of an answer that is broken off."""


class Source(Protocol):
    """Where what is sent comes from."""

    def pause(self) -> None:
        """The client is behind."""

    def resume(self) -> None:
        """It has caught up."""


class Sender:
    """Sends the messages of one response, in order, and tells their source whether the client takes them."""

    __slots__ = (
        *("_broken", "_holds", "_is_own", "_loop", "_make_head", "_opening", "_pump", "_queue", "_send"),
        *("_source", "_write_opening", "_write_piece", "_write_start"),
    )

    def __init__(self, send: Send) -> None:
        self._send = send
        listener = listener_of(send)
        self._is_own = listener is not None
        self._write_start: Callable[[int, Headers], bool] = _never if listener is None else listener.write_start
        self._write_piece: Callable[[bytes], bool] = _never if listener is None else listener.write_piece
        self._make_head: Callable[[int, Headers], bytes] = _unknown if listener is None else listener.stream_head
        self._write_opening: Callable[[bytes, bytes], bool] = _never if listener is None else listener.write_opening
        self._opening: tuple[bytes, int, Headers]  # see `prepare`
        self._loop = asyncio.get_running_loop()
        self._source: Source | None = None
        self._queue: deque[Message] = deque()
        self._pump: asyncio.Task[None] | None = None  # sends what waits
        self._holds = False  # the source is held back
        self._broken: BaseException | None = None

    @property
    def source(self) -> Source | None:
        """What is held back while the client is behind, from now on; None again once nothing more comes from there."""
        return self._source

    @source.setter
    def source(self, source: Source | None) -> None:
        self._source = source
        self._holds = False
        if self._pump is not None:
            self._hold()

    @property
    def is_blocked(self) -> bool:
        """Whether the server has yet to take what was sent."""
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
            self._hold()
            return
        if not self._is_own:
            self._queue.append(message)
            self._pump = self._loop.create_task(self._finish())
            return
        sending: Coroutine[Any, Any, None] = self._send(message)  # type: ignore[assignment]  # the listener's is one
        try:
            waited = sending.send(None)
        except StopIteration:
            return
        except Exception as exc:  # noqa: BLE001 - whatever the server raises, the client cannot be reached any more
            self._broken = exc
            return
        self._pump = self._loop.create_task(self._finish(_resumed(sending, waited)))
        self._hold()

    async def drained(self) -> None:
        """Wait until everything is sent; raises ClientGone where it could not be."""
        while self._pump is not None:
            await asyncio.shield(self._pump)
        if self._broken is not None:
            raise ClientGone from self._broken

    async def handed_over(self) -> None:
        """Wait a moment until another server has what was sent: it may end once its request is cancelled.

        The client may take it later, or never.
        """
        if self._pump is not None and not self._is_own:
            with suppress(TimeoutError):
                async with asyncio.timeout(_MOMENT):
                    await asyncio.shield(self._pump)

    def cancel(self) -> None:
        """The client is gone: what waits is not sent."""
        self._broken = ClientGone()
        self._queue.clear()
        pump, self._pump = self._pump, None
        if pump is not None:
            self._loop.call_soon(pump.cancel)  # not before its first step: what it is to await would never begin

    def _hold(self) -> None:
        if not self._holds and self._source is not None:
            self._holds = True
            self._source.pause()

    async def _finish(self, sending: Generator[Any, Any, None] | None = None) -> None:
        """Send what waits, behind what is *sending* already."""
        try:
            if sending is not None:
                await sending  # type: ignore[misc]  # see `_resumed`
            while self._queue:
                await self._send(self._queue.popleft())
        except BaseException as exc:  # a cancellation, too, that is none of `cancel`: nothing can be sent after a gap
            self._broken = self._broken or exc
            self._queue.clear()
            if not isinstance(exc, Exception):
                raise
        finally:
            if self._pump is asyncio.current_task():  # else `cancel` was before it
                self._pump = None
                holds, self._holds = self._holds, False
                if holds and self._source is not None:
                    self._source.resume()


def _never(*_: object) -> bool:
    return False


def _unknown(*_: object) -> bytes:
    return b""


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
