"""One request and its answer, between a connection and the application."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

from svir_proxy.listener.heads import response_head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.types import Message, Scope

_LOGGER: Final = logging.getLogger("svir_proxy")
_DISCONNECT: Final = {"type": "http.disconnect"}
_CLOSES: Final = b"\r\nconnection: close"
_SMALL: Final = 1024
_SIZES: Final = tuple(b"%x\r\n" % size for size in range(_SMALL))
"""How chunks of so many bytes begin: nearly all are small, and formatting a number takes longer than all the rest."""
_CHUNKED: Final = b"\r\ntransfer-encoding: chunked"


class Channel(Protocol):
    """The connection as a cycle sees it."""

    is_congested: bool
    """Whether a writer should wait."""
    is_resting: bool
    """Whether nothing is read."""
    is_last: bool
    """Whether no request may follow the one that was read last."""

    def future(self) -> asyncio.Future[None]:
        """A future of the connection's loop."""

    async def drained(self) -> None:
        """Return when more may be written, or nothing can be written any more."""

    def write(self, data: bytes) -> None:
        """Hand bytes to the loop."""

    def pour(self) -> Callable[[bytes], object] | None:
        """What does the same, as long as the client is there and nothing else is written; None: it is not."""

    def rest(self, rest: bool) -> None:
        """Stop or go on reading."""

    def closes_after(self, cycle: Cycle) -> bool:
        """Whether the answer to *cycle* is the last."""

    def answered(self, cycle: Cycle, data: bytes, *, is_whole: bool) -> None:
        """*data* is the last of the answer to *cycle*; all of it (*is_whole*) may wait for the end of the turn."""

    def abort(self) -> None:
        """Close at once."""


class Cycle:
    """Gives the application the request, and writes what it sends. *expects*: the client waits for 100 (Continue)."""

    __slots__ = (
        *("_all_told", "_body", "_buffer", "_channel", "_chunked", "_gone", "_head", "_knows_chunks", "_left", "_pour"),
        *("_on_disconnect", "_scope", "_silent", "closes", "complete", "expects", "more_body", "started", "task"),
        "waiter",
    )

    def __init__(self, scope: Scope, channel: Channel, buffer: int, *, expects: bool) -> None:
        self._scope: Scope | None = scope  # until it is served
        self._channel = channel
        self._buffer = buffer
        self._body: bytes | bytearray = b""  # what the application has not asked for yet
        self._all_told = False  # the application has the whole request
        self._gone = False
        self._on_disconnect: Callable[[], object] | None = None
        self._head = b""  # until it leaves with the first of the body
        self._chunked = False
        self._pour: Callable[[bytes], object] | None = None  # takes chunks: the first is out, and the last not
        self._knows_chunks = scope["http_version"] == "1.1"
        self._silent = scope["method"] == "HEAD"  # the body counts, but does not leave
        self._left: int | None = None  # bytes of the body that are due
        self.task: asyncio.Task[None] | None = None
        self.waiter: asyncio.Future[None] | None = None
        """Where the application waits for more of the request; see `wake`."""
        self.expects = expects
        """Whether the client still waits for 100 before it sends a body."""
        self.more_body = True
        """Whether the request has yet to be read to its end."""
        self.started = False
        """Whether the application has begun an answer."""
        self.complete = False
        """Whether the answer is out."""
        self.closes = False
        """Whether the connection ends with the answer."""

    # for the connection

    @property
    def unserved(self) -> tuple[Scope, bytes] | None:
        """The request, with a body that came in one piece, as long as the application has nothing of it; else None."""
        return None if self._scope is None or type(self._body) is not bytes else (self._scope, self._body)

    def take(self, body: bytes) -> None:
        """A piece of the request's body; dropped once there is an answer."""
        self.expects = False  # it did not wait
        if self.complete:
            return
        if not self._body:
            self._body = body
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += body
        if len(self._body) > self._buffer:
            self._channel.rest(rest=True)
        if self.waiter is not None:
            self.wake()

    def wake(self) -> None:
        """Have the application look again at what there is."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def disconnect(self) -> None:
        """Nobody is left to answer."""
        self._gone = True
        self._pour = None
        self._body = b""
        self.wake()
        if self._on_disconnect is not None:
            self._on_disconnect()

    async def run(self, app: Any, tasks: set[asyncio.Task[None]]) -> None:
        """Have *app* answer; the task that does so is in *tasks* until then."""
        scope, self._scope = self._scope, None  # which refers back to this, and would leave it to the collector
        assert scope is not None
        scope["extensions"] = {"svir.on_disconnect": self.on_disconnect}
        try:
            await app(scope, self.receive, self.send)
        except Exception:
            _LOGGER.exception("the application failed")
        finally:
            if self.task is not None:
                tasks.discard(self.task)
                self.task = None
            if not self.complete and not self._gone:
                self._channel.abort()

    # for the application

    def on_disconnect(self, callback: Callable[[], object] | None) -> None:
        """Call *callback* when the client leaves, at once where it has; an extension of ASGI, which has only `receive`.

        The request must have been read. None: do not call.
        """
        self._on_disconnect = callback
        if callback is not None:
            if self._channel.is_resting:
                self._channel.rest(rest=False)  # else nobody sees it
            if self._gone:
                callback()

    def whole_body(self) -> bytes | bytearray | None:
        """What is left of the request's body, without the message and the coroutine that `receive` takes.

        None where there is more to it - some has yet to come, all was received already, ... - and `receive` must.
        """
        if self.more_body or self._all_told or self._gone or self.complete:
            return None
        self._all_told = True
        body, self._body = self._body, b""
        return body

    async def receive(self) -> Message:
        """The next of the request's body; ``http.disconnect`` once the client is gone or has its answer."""
        if self.expects and not self.started and not self._gone:
            self.expects = False
            self._channel.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not self._gone and not self.complete:
            if self._body or not (self.more_body or self._all_told):
                body, self._body = self._body, b""
                self._all_told = not self.more_body
                return {"type": "http.request", "body": bytes(body), "more_body": self.more_body}
            self._channel.rest(rest=False)
            self.waiter = self._channel.future()
            await self.waiter
        return _DISCONNECT

    async def send(self, message: Message) -> None:
        """``http.response.start``, then ``http.response.body`` until ``more_body`` is false."""
        if self._gone:
            return
        if self._channel.is_congested:
            await self._channel.drained()
        if message["type"] == "http.response.body":
            self._write(message.get("body", b""), more=message.get("more_body", False))
        elif message["type"] == "http.response.start":
            self._begin(message["status"], message.get("headers", ()))
        else:
            raise RuntimeError(f"{message['type']} is no message of an answer")

    def write_whole(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bool:
        """Write a whole answer, as `send` does with the two messages for it.

        False where there is more to it - it is not framed by its length, HEAD asked for it, ... - and `send` must.
        """
        channel = self._channel
        if self.started or self._gone or self._silent or channel.is_congested:
            return False
        head, length, closes = response_head(status, headers)
        if length != len(body):
            return False
        self.started = self.complete = True
        if closes:
            self.closes = True
        elif self.expects or (channel.is_last and channel.closes_after(self)):  # see `_begin`
            self.closes = True
            head += _CLOSES
        self._body = b""
        if self.waiter is not None:
            self.wake()
        channel.answered(self, b"%b\r\n\r\n%b" % (head, body), is_whole=True)
        return True

    def write_start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Begin an answer, without the message and the coroutine that `send` takes; False where that must."""
        if self._gone or self._channel.is_congested:
            return False
        self._begin(status, headers)
        return True

    def stream_head(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """The head of a stream that may begin later, for `write_opening`; ``b""`` where only `write_start` can tell."""
        if self.started or self._silent or not self._knows_chunks:
            return b""
        try:
            head, length, closes = response_head(status, headers)
        except ValueError:
            return b""
        return b"" if closes or length is not None else head + _CHUNKED + b"\r\n\r\n"

    def write_opening(self, head: bytes, body: bytes) -> bool:
        """Write a *head* from `stream_head` and the first piece, as `write_start` and `write_piece` do; else False."""
        channel = self._channel
        if self.started or self._gone or self.expects or channel.is_last or channel.is_congested:
            return False
        self.started = self._chunked = True
        channel.write(head + _chunk(body))
        self._pour = channel.pour()
        return True

    def write_piece(self, body: bytes) -> bool:
        """Write a piece of a stream, without the message and the coroutine that `send` takes.

        False where there is more to it - nothing has begun yet, the client is behind or gone, ... - and `send` must.
        """
        if not body or self._channel.is_congested:
            return False
        if (pour := self._pour) is None:
            return self._write_first_piece(body)
        size = len(body)  # `_chunk`, without the call
        pour(b"".join((_SIZES[size] if size < _SMALL else b"%x\r\n" % size, body, b"\r\n")))
        return True

    # within

    def _write_first_piece(self, body: bytes) -> bool:
        if not self._chunked or self.complete or self._gone:
            return False
        head, self._head = self._head, b""
        self._channel.write(head + _chunk(body))
        self._pour = self._channel.pour()
        return True

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        if self.started:
            raise RuntimeError("the answer has begun already")
        head, self._left, closes = response_head(status, headers)
        self.started = True
        channel = self._channel
        # Who waits for 100 and gets an answer may or may not send the body: nothing can be read after it.
        self.closes = closes or self.expects or (channel.is_last and channel.closes_after(self))
        if self._left is None and not self._silent:
            self._chunked = self._knows_chunks
            self.closes = self.closes or not self._chunked
            if self._chunked:
                head += _CHUNKED
        if self.closes and not closes:
            head += _CLOSES
        self._head = head + b"\r\n\r\n"

    def _write(self, body: bytes, *, more: bool) -> None:
        if not self.started or self.complete:
            raise RuntimeError("a body goes between the beginning and the end of an answer")
        if self._left is not None and not self._silent:  # to HEAD an application may send the body or leave it out
            self._left -= len(body)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("the body does not have its content-length")
        if self._silent:
            body = b""
        elif self._chunked:
            if body:
                body = _chunk(body)
            if not more:
                body += b"0\r\n\r\n"
        is_whole = not more and bool(self._head)
        if self._head:
            body, self._head = self._head + body, b""
        if more:
            if body:
                self._channel.write(body)
            return
        self.complete = True
        self._pour = None
        self._body = b""
        if self.waiter is not None:
            self.wake()
        self._channel.answered(self, body, is_whole=is_whole)


def _chunk(body: bytes) -> bytes:
    size = len(body)
    return b"".join((_SIZES[size] if size < _SMALL else b"%x\r\n" % size, body, b"\r\n"))
