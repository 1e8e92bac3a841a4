"""An answer that passes as it is: bytes from the server's socket to the client's, within the limits of time.

As in `reception` there is no task per read; the server is paused while the client is behind. The head waits for the
first byte, so that a failure before it has its HTTP status, but no longer than ``commit_after``.
"""

from __future__ import annotations

import asyncio
from typing import Final

import httpx
from starlette.types import Message, Send

from svir_proxy.errors import ProxyError
from svir_proxy.server.quotas.passed_tokens import PassedMeter
from svir_proxy.server.sender import Sender
from svir_proxy.server.transport import Decoder, UpstreamResponse
from svir_proxy.settings import Timeouts

_EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")


class Relay:
    """Passes one answer on: a `BodySink` in front of the client's *send*. *start* is the message it begins with.

    *room*: an answer of no more than so many bytes is kept in `held`, and not sent.
    *meter* counts what passes.
    """

    def __init__(
        self,
        send: Send,
        start: Message,
        timeouts: Timeouts,
        commit_after: float,
        *,
        decoder: Decoder | None = None,
        room: int = 0,
        meter: PassedMeter | None = None,
    ) -> None:
        self._sender = Sender(send)
        self._start = start
        self._timeouts = timeouts
        self._decoder = decoder
        self._room = room
        self._meter = meter
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._commit_at = now + commit_after
        self._deadline = now + timeouts.first_output
        self._heard = False
        self._paused_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._body: UpstreamResponse | None = None
        self._over = self._ended = False
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._tail = b"\n\n"  # of what was sent
        self._error: ProxyError | None = None
        self.begun = False
        """Whether the client has seen anything: after that a failure has no status of its own."""
        self.held = bytearray()
        """The whole of a small answer, where there is `room`."""

    async def run(self, body: UpstreamResponse) -> ProxyError | None:
        """Pass *body* on to its end, and close it; the error where it is not whole."""
        self._body = body
        self._sender.source = self
        self._tick()
        try:
            body.attach(self)
            await self._done
        finally:
            self._over = True
            self._sender.source = None
            if self._timer is not None:
                self._timer.cancel()
            body.close()
        return self._error

    async def end(self) -> None:
        """End the answer, and wait until the client has all of it."""
        if not self._ended:
            self._ended = True
            self._begin()
            self._sender.send({"type": "http.response.body", "body": bytes(self.held), "more_body": False})
        await self._sender.drained()

    async def break_off(self, error: ProxyError, *, events: bool) -> bool:
        """End an answer that has begun with *error*, without waiting for the client; whether that was possible.

        Only a stream of *events* can tell, and only between two of them. Any other is left incomplete.
        """
        is_possible = events and self._tail.endswith(_EVENT_ENDS)
        if is_possible:
            self._ended = True
            last = b"data: %b\n\n" % error.body()
            self._sender.send({"type": "http.response.body", "body": last, "more_body": False})
        await self._sender.handed_over()
        return is_possible

    def abandon(self) -> None:
        """The client is gone."""
        self._sender.cancel()

    # for the body

    def data_received(self, data: bytes) -> None:
        """Bytes of the body."""
        if self._over:
            return
        self._heard = True
        self._deadline = self._loop.time() + self._timeouts.idle
        if self._decoder is None:
            self._write(data)
            return
        try:
            for piece in self._decoder.pieces(data):
                self._write(piece)
        except httpx.DecodingError as exc:
            self._fail(ProxyError("upstream_bad_response", f"The server's answer cannot be read: {exc}."))

    def body_ended(self, error: Exception | None) -> None:
        """The end of the body."""
        try:
            if self._decoder is not None and error is None:
                self._decoder.finish()
        except httpx.DecodingError as exc:
            error = exc
        if error is None:
            self._finish()
        else:
            self._fail(ProxyError("stream_truncated", f"The server broke off its answer: {error}."))

    # within

    def _write(self, data: bytes) -> None:
        if self._meter is not None:
            self._meter.feed(data)
        if self._room:
            self.held += data
            if len(self.held) <= self._room:
                return
            data, self._room = bytes(self.held), 0
            self.held.clear()
        self._begin()
        self._tail = (self._tail + data[-4:])[-4:]
        self._sender.write(data)

    def _begin(self) -> None:
        if not self.begun:
            self.begun = True
            self._sender.begin(self._start["status"], self._start["headers"])

    def pause(self) -> None:
        """The client is behind."""
        if self._body is not None and not self._over:
            self._body.pause()
            self._paused_at = self._loop.time()

    def resume(self) -> None:
        """It has caught up."""
        if self._body is not None and not self._over:
            if self._paused_at is not None:
                self._deadline += self._loop.time() - self._paused_at
                self._paused_at = None
            self._body.resume()

    def _tick(self) -> None:
        now = self._loop.time()
        due = self._deadline
        if self._paused_at is not None:
            due = now + self._timeouts.idle  # the client has something to read
        elif now >= due:
            self._fail(self._late())
            return
        elif not self.begun and not self._room:
            if now >= self._commit_at:
                self._begin()
                self._sender.send({"type": "http.response.body", "body": b"", "more_body": True})
            else:
                due = min(due, self._commit_at)
        # The deadline moves with each read, and may come nearer with the first.
        self._timer = self._loop.call_at(max(min(due, now + self._timeouts.idle), now + 0.001), self._tick)

    def _late(self) -> ProxyError:
        setting = "idle" if self._heard else "first_output"
        seconds = getattr(self._timeouts, setting)
        return ProxyError(
            "upstream_timeout", f"The server sent nothing for {seconds:g} s (timeouts.{setting} of the backend)."
        )

    def _fail(self, error: ProxyError) -> None:
        if not self._over:
            self._error = error
            self._finish()

    def _finish(self) -> None:
        self._over = True
        if not self._done.done():
            self._done.set_result(None)
