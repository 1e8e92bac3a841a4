"""The upstream's side of an answer: its bytes as they arrive, its silences, its end.

One read of the socket goes through the normalizer to the client in the same turn of the loop. Time is watched by one
timer for all limits, which looks at its watch only when the nearest of them may be over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import httpx

from svir_proxy.errors import ProxyError
from svir_proxy.response.lifecycle import OVER, State
from svir_proxy.response.normalizer import StreamNormalizer
from svir_proxy.server.answer import Answer
from svir_proxy.server.transport import Decoder, UpstreamResponse
from svir_proxy.settings import Timeouts

_LINGER: Final = 1.0
"""Seconds a body may take to end after its ``[DONE]``, so that its connection can be used again."""


class Watch:
    """The time limits of one answer: first output, then pauses between outputs; and what is due to the client."""

    def __init__(self, answer: Answer, timeouts: Timeouts) -> None:
        self.loop = asyncio.get_running_loop()
        self._answer = answer
        self._timeouts = timeouts
        self._shortest = min(timeouts.idle, timeouts.first_output)
        self._deadline = self.loop.time() + timeouts.first_output
        self._has_output = False
        self.fresh_at: float | None = None
        """When output came last (time of the loop): whoever receives it says so, which takes no call for each piece.

        None again once the limits take account of it, which they do when they are looked at.
        """
        self._output_at: float | None = None
        self._paused_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._on_over: Callable[[ProxyError], None] | None = None
        self.is_over = False
        """Whether a limit is over; nothing is watched from then on."""

    def start(self) -> None:
        """Watch from now on."""
        if self._answer.is_timed:
            self._tick()
        else:
            self._timer = self.loop.call_later(self._shortest, self._tick)

    def tell(self, on_over: Callable[[ProxyError], None] | None) -> None:
        """Call *on_over* when a limit is over; at once where one is."""
        self._on_over = on_over
        if self.is_over and on_over is not None:
            on_over(self.error())

    def stop(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def silence(self) -> float | None:
        """Seconds since the last output; None: none came."""
        self._count()
        return None if self._output_at is None else self.loop.time() - self._output_at

    def restart(self) -> None:
        """The server is asked once more after output of its own: it may read the prompt again."""
        self._count()
        self._has_output = False
        self._deadline = self.loop.time() + self._timeouts.first_output

    def pause(self) -> None:
        """The client holds the answer back: the server's time stands still."""
        if self._paused_at is None:
            self._paused_at = self.loop.time()

    def resume(self) -> None:
        """The client has caught up."""
        if self._paused_at is not None:
            self._count()
            self._deadline += self.loop.time() - self._paused_at
            self._paused_at = None

    def _count(self) -> None:
        """Take account of the output that came since the last time."""
        if self.fresh_at is not None:
            self._has_output = True
            self._output_at, self.fresh_at = self.fresh_at, None
            self._deadline = self._output_at + self._timeouts.idle

    def _tick(self) -> None:
        now = self.loop.time()
        self._count()
        if self._paused_at is None and now >= self._deadline:
            self._timer = None
            self.is_over = True
            if self._on_over is not None:
                self._on_over(self.error())
            return
        # No longer than the shorter limit, which may come to count from any moment on.
        due = min(self._answer.tick(now), now + self._shortest)
        if self._paused_at is None and due > self._deadline:
            due = self._deadline
        self._timer = self.loop.call_at(max(due, now + 0.001), self._tick)

    def error(self) -> ProxyError:
        """The error for the limit that is over."""
        if self._has_output:
            seconds, setting = self._timeouts.idle, "idle"
        else:
            seconds, setting = self._timeouts.first_output, "first_output"
        return ProxyError(
            "upstream_timeout", f"The server sent no output for {seconds:g} s (timeouts.{setting} of the backend)."
        )


class Reception:
    """Receives one 2xx response of an upstream: a `BodySink` between its body and the client's answer.

    An answer that is gathered may have *max_bytes* of body; a stream may go on for ever.
    """

    def __init__(
        self, normalizer: StreamNormalizer, answer: Answer, watch: Watch, decoder: Decoder | None, max_bytes: int
    ) -> None:
        self._max_bytes = max_bytes
        self._room = max_bytes if answer.gathers else None  # bytes that may yet come; None: any number
        self._normalizer = normalizer
        self._lifecycle = normalizer.lifecycle
        self._answer = answer
        self._watch = watch
        self._decoder = decoder
        self.is_over = False
        """Whether nothing of the body counts any more."""
        self._done: asyncio.Future[None] | None = None
        self._ended = False
        self._body: UpstreamResponse | None = None
        self._pieces = 0
        self._lingering: asyncio.TimerHandle | None = None
        self.error: ProxyError | None = None
        """Why the answer failed, if it did."""

    async def receive(self, body: UpstreamResponse) -> ProxyError | None:
        """Receive *body* to its end; the error of a failed answer, None for a complete one."""
        self._body = body
        self._answer.begin_source(self)
        try:
            body.attach(self if self._decoder is None else _Decoded(self, self._decoder))
            if not self.is_over:
                self._done = self._watch.loop.create_future()
                self._watch.tell(self.fail)
                await self._done
        finally:
            self._watch.tell(None)
            self._answer.end_source(self._watch.silence())
            self._watch.resume()
            self._release(body)
        return self.error

    def pause(self) -> None:
        """The client is behind: read no more, and do not blame the server for it."""
        if self._body is not None:
            self._body.pause()
        self._watch.pause()

    def resume(self) -> None:
        """The client has caught up."""
        self._watch.resume()
        if self._body is not None:
            self._body.resume()

    def data_received(self, data: bytes) -> None:
        """Bytes of the body."""
        if self.is_over:
            return  # after [DONE]
        if self._room is not None:
            self._room -= len(data)
            if self._room < 0:
                text = f"The server's answer is larger than {self._max_bytes} bytes (limits.max_answer_bytes)."
                self.fail(ProxyError("upstream_bad_response", text))
                return
        normalizer = self._normalizer
        events = normalizer.receive_data(data)
        if events:
            self._answer.take(events)
            if self._lifecycle.state in OVER:
                if normalizer.pieces != self._pieces:
                    self._watch.fresh_at = self._watch.loop.time()
                self._note_end()
                return
        if (pieces := normalizer.pieces) != self._pieces:
            # Also of text or calls that are held back: nothing for the client yet, but the server is at work.
            self._pieces = pieces
            watch = self._watch
            watch.fresh_at = watch.loop.time()
            if normalizer.can_learn:
                normalizer.learn()

    def body_ended(self, error: Exception | None) -> None:
        """The end of the body."""
        self._ended = True
        if self._lingering is not None:
            self._lingering.cancel()
        if self._lifecycle.state not in OVER:
            events = self._normalizer.receive_eof(error is None)
            self._answer.take(events)
            self._note_end()

    def fail(self, error: ProxyError) -> None:
        """The answer ends here, for this reason."""
        if self.is_over:
            return
        self._answer.take(self._normalizer.fail(error))
        self._note_end()

    def _note_end(self) -> None:
        self.error = self._normalizer.error
        self.is_over = True
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    def _release(self, body: UpstreamResponse) -> None:
        """Let a body that is about to end do so; stop the generation of any other."""
        if not self._ended and self._lifecycle.state is State.COMPLETE:
            self._lingering = self._watch.loop.call_later(_LINGER, body.close)
            body.resume()
        else:
            body.close()


class _Decoded:
    """Stands before a reception and undoes the content-encoding."""

    def __init__(self, reception: Reception, decoder: Decoder) -> None:
        self._reception = reception
        self._decoder = decoder

    def data_received(self, data: bytes) -> None:
        """Bytes as sent."""
        reception = self._reception
        try:
            # One read can stand for tens of megabytes, so they are taken as they are made, up to the first too many.
            for piece in self._decoder.pieces(data):
                reception.data_received(piece)
                if reception.is_over:
                    return
        except httpx.DecodingError as exc:
            reception.fail(ProxyError("upstream_bad_response", f"The server's answer cannot be read: {exc}."))

    def body_ended(self, error: Exception | None) -> None:
        """The end, which is none where what was compressed has not ended."""
        if error is None:
            try:
                self._decoder.finish()
            except httpx.DecodingError as exc:
                error = exc
        self._reception.body_ended(error)
