"""One response: its head, and its body, which is pushed into a sink or pulled.

Push is for relays: a read of the socket reaches the sink in the same turn of the loop, with no task, queue or future
in between. Pull is for everything else. Both are fed by the connection and hold it back when they fall behind.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol

import httpx

Headers = list[tuple[bytes, bytes]]


class BodySink(Protocol):
    """Where a body is pushed to. It may call any method of the response from within its own."""

    def data_received(self, data: bytes) -> None:
        """Take the body bytes of one read, still encoded as the content-encoding says."""

    def body_ended(self, error: Exception | None) -> None:
        """Once, after all data; not after `UpstreamResponse.close` or `detach`. None: the body is whole.

        Otherwise RemoteProtocolError (broken off, not valid HTTP), ReadError (connection lost), or what this sink
        itself raised from `data_received`.
        """


class Source(Protocol):
    """The connection as its response sees it."""

    def hold_reading(self, hold: bool) -> None:
        """Stop or go on reading the socket."""

    def leave(self) -> None:
        """The consumer wants no more: the connection is closed unless the response has just ended."""


class UpstreamResponse:
    """A response whose head has come, and its body as it arrives. Must be closed.

    The connection goes back to its pool when the last byte has arrived, whether or not it was consumed by then;
    closing before that ends the connection at once, which is how a model server is told to stop.
    """

    __slots__ = (
        "_buffer",
        "_buffered",
        "_closed",
        "_consumed",
        "_delivering",
        "_ended",
        "_error",
        "_holding",
        "_limit",
        "_paused",
        "_sink",
        "_source",
        "_waiter",
        "headers",
        "is_encoded",
        "status",
    )

    status: int
    headers: Headers
    """As sent."""
    is_encoded: bool
    """Whether there is a content-encoding among them."""

    def __init__(self, source: Source, limit: int) -> None:
        """A response to come; its head is set when it has. *limit*: bytes that may wait to be read."""
        self._source: Source | None = source
        self._limit = limit
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._sink: BodySink | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._ended = self._closed = self._paused = self._holding = self._delivering = self._consumed = False

    def at_hand(self, limit: int) -> bytes | None:
        """The whole body, if all of it has come and none was read, up to *limit* bytes; it is then closed."""
        if not self._ended or self._error is not None or self._buffered > limit or self._consumed or self._closed:
            return None
        self._consumed = self._closed = True
        buffer, self._buffer = self._buffer, []
        return buffer[0] if len(buffer) == 1 else b"".join(buffer)

    # for the consumer that is pushed to

    def attach(self, sink: BodySink) -> None:
        """Push into *sink*: what has arrived at once, then each read as it comes."""
        if self._closed or self._sink is not None or self._waiter is not None:
            raise RuntimeError("the body is closed or already being read")
        self._sink = sink
        self._consumed = True
        if self._buffer or self._ended:
            self._deliver()

    def detach(self) -> None:
        """Push no more; what arrives is kept for the next sink or for iteration."""
        self._sink = None

    def pause(self) -> None:
        """Stop reading the socket. Nothing reaches the sink, not even the end, until `resume`."""
        self._paused = True
        self._regulate()

    def resume(self) -> None:
        """Push what has arrived meanwhile, then go on reading."""
        self._paused = False
        self._deliver()

    def close(self) -> None:
        """Want no more of it. Idempotent; ends the connection unless the body had ended."""
        if self._closed:
            return
        self._closed = True
        self._sink = None
        self._buffer = []
        self._buffered = 0
        source, self._source = self._source, None
        if source is not None:
            source.leave()
        if self._waiter is not None:
            self._wake()

    # for the consumer that pulls

    def __aiter__(self) -> UpstreamResponse:
        """Itself: there is one consumer."""
        return self

    async def __anext__(self) -> bytes:
        """What has arrived since the last step, as one piece. Raises what `BodySink.body_ended` would be given."""
        if self._sink is not None or self._waiter is not None:
            raise RuntimeError("the body is already being read")
        self._consumed = True
        while not self._buffer:
            if self._closed:
                raise httpx.StreamClosed
            if self._ended:
                raise self._error or StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        data = self._take()
        self._regulate()
        return data

    async def aclose(self) -> None:
        """`close`, for who has also responses whose end takes time."""
        self.close()

    # for the connection

    def feed(self, data: bytes) -> None:
        """The body bytes of one read."""
        sink = self._sink
        if sink is None or self._paused:
            self._buffer.append(data)
            self._buffered += len(data)
            if self._buffered > self._limit:
                self._regulate()
            if self._waiter is not None:
                self._wake()
            return
        try:
            sink.data_received(data)
        except Exception as exc:  # noqa: BLE001 - the loop must survive whatever a sink raises
            self._sink_failed(sink, exc)

    def end(self, error: Exception | None, data: bytes = b"") -> None:
        """No more will come after *data*; the connection is no longer this response's."""
        self._source = None
        self._ended = True
        self._error = error
        if data:
            self._buffer.append(data)
            self._buffered += len(data)
        if self._sink is not None:
            self._deliver()
        if self._waiter is not None:
            self._wake()

    def _deliver(self) -> None:
        if self._delivering:  # called by the sink, from within the loop below, which goes on by itself
            return
        self._delivering = True
        try:
            while (sink := self._sink) is not None and not self._paused:
                if self._buffer:
                    try:
                        sink.data_received(self._take())
                    except Exception as exc:  # noqa: BLE001 - the loop must survive whatever a sink raises
                        self._sink_failed(sink, exc)
                elif self._ended:
                    self._sink = None
                    try:
                        sink.body_ended(self._error)
                    except Exception as exc:  # noqa: BLE001 - the loop must survive whatever a sink raises
                        self._report(exc)
                else:
                    break
        finally:
            self._delivering = False
        if self._source is not None:
            self._regulate()

    def _sink_failed(self, sink: BodySink, exc: Exception) -> None:
        self._report(exc)
        listening = self._sink is sink
        self.close()
        if listening:  # who waits for the end must not wait for ever; a second fault adds nothing
            with contextlib.suppress(Exception):
                sink.body_ended(exc)

    def _report(self, exc: Exception) -> None:
        asyncio.get_running_loop().call_exception_handler(
            {"message": "the consumer of an upstream response failed", "exception": exc}
        )

    def _take(self) -> bytes:
        buffer, self._buffer = self._buffer, []
        self._buffered = 0
        return buffer[0] if len(buffer) == 1 else b"".join(buffer)

    def _regulate(self) -> None:
        """Have the connection read, or not; it is told only of a change."""
        hold = self._paused or self._buffered > self._limit
        if hold is not self._holding and self._source is not None:
            self._holding = hold
            self._source.hold_reading(hold)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
