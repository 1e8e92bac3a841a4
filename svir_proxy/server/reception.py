"""The upstream's side of an answer: its bytes as they arrive, its silences, its end.

One read of the socket goes through the normalizer to the client in the same turn of the loop. Time is watched by one
timer for all limits, which looks at its watch only when the nearest of them may be over.
"""

from __future__ import annotations

import asyncio
from typing import Final

import httpx

from svir_proxy.errors import ProxyError
from svir_proxy.response.lifecycle import OVER, State
from svir_proxy.response.normalizer import StreamNormalizer
from svir_proxy.server.answer import Answer
from svir_proxy.server.transport import Decoder, UpstreamBody
from svir_proxy.settings import Timeouts

_LINGER: Final = 1.0
"""Seconds a body may take to end after its ``[DONE]``, so that its connection can be used again."""


class Watch:
    """The time limits of one answer: first output, then pauses between outputs; and what is due to the client."""

    def __init__(self, answer: Answer, timeouts: Timeouts) -> None:
        self._loop = asyncio.get_running_loop()
        self._answer = answer
        self._timeouts = timeouts
        self._deadline = self._loop.time() + timeouts.first_output
        self._has_output = False
        self._timer: asyncio.TimerHandle | None = None
        self.over: asyncio.Future[ProxyError] = self._loop.create_future()
        """Set when a limit is over."""

    def start(self) -> None:
        """Watch from now on."""
        self._tick()

    def stop(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def output(self) -> None:
        """Output came."""
        self._has_output = True
        self._deadline = self._loop.time() + self._timeouts.idle

    def _tick(self) -> None:
        now = self._loop.time()
        if now >= self._deadline:
            self._timer = None
            if not self.over.done():
                self.over.set_result(self._error())
            return
        due = min(self._answer.tick(now), self._deadline)
        self._timer = self._loop.call_at(max(due, now + 0.001), self._tick)

    def _error(self) -> ProxyError:
        if self._has_output:
            seconds, setting = self._timeouts.idle, "idle"
        else:
            seconds, setting = self._timeouts.first_output, "first_output"
        return ProxyError(
            "upstream_timeout", f"The server sent no output for {seconds:g} s (timeouts.{setting} of the backend)."
        )


class Reception:
    """Receives one 2xx response of an upstream: a `BodySink` between its body and the client's answer."""

    def __init__(self, normalizer: StreamNormalizer, answer: Answer, watch: Watch, decoder: Decoder | None) -> None:
        self._normalizer = normalizer
        self._answer = answer
        self._watch = watch
        self._decoder = decoder
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._ended = False
        self.error: ProxyError | None = None
        """Why the answer failed, if it did."""

    async def receive(self, body: UpstreamBody) -> ProxyError | None:
        """Receive *body* to its end; the error of a failed answer, None for a complete one."""
        self._answer.begin_source(body)
        try:
            body.attach(self)
            if not self._done.done():
                await asyncio.wait((self._done, self._watch.over), return_when=asyncio.FIRST_COMPLETED)
            if not self._done.done():
                self._fail(self._watch.over.result())
        finally:
            self._answer.end_source()
            self._release(body)
        return self.error

    def data_received(self, data: bytes) -> None:
        """Bytes of the body."""
        if self._decoder is not None:
            try:
                data = self._decoder(data)
            except httpx.DecodingError as exc:
                self._fail(ProxyError("upstream_bad_response", f"The server's answer cannot be read: {exc}."))
                return
        self._take(data)

    def body_ended(self, error: Exception | None) -> None:
        """The end of the body."""
        self._ended = True
        normalizer = self._normalizer
        if normalizer.state not in OVER:
            events = normalizer.receive_eof(error is None)
            self._answer.take(events)
            self._note_end()

    def _take(self, data: bytes) -> None:
        normalizer = self._normalizer
        if normalizer.state in OVER:
            return  # after [DONE]
        events = normalizer.receive_data(data)
        if events:
            self._answer.take(events)
            state = normalizer.state
            if state in OVER:
                self._note_end()
            elif state is not State.WAITING:
                self._watch.output()

    def _fail(self, error: ProxyError) -> None:
        self._answer.take(self._normalizer.fail(error))
        self._note_end()

    def _note_end(self) -> None:
        self.error = self._normalizer.error
        if not self._done.done():
            self._done.set_result(None)

    def _release(self, body: UpstreamBody) -> None:
        """Let a body that is about to end do so; stop the generation of any other."""
        if not self._ended and self._normalizer.state is State.COMPLETE:
            body.resume()
            self._loop.call_later(_LINGER, body.close)
        else:
            body.close()
