"""One connection to a server: the loop's callbacks on one side, a request and its response on the other.

A connection is idle, in an exchange, or closed. In an exchange `_response` is set; `_head` is set as long as its head
has not come. Both are cleared before anybody is told, so that a consumer may do anything from within a callback.
"""

from __future__ import annotations

import asyncio
import select
from typing import TYPE_CHECKING, Final, Protocol, cast

import httpx

from svir_proxy.server.transport.parser import ResponseParser
from svir_proxy.server.transport.response import UpstreamResponse
from svir_proxy.server.transport.sending import send, send_listening
from svir_proxy.server.transport.waiting import within

if TYPE_CHECKING:
    from svir_proxy.outbox import Outbox
    from svir_proxy.server.transport.head import Origin, Outgoing
    from svir_proxy.server.transport.limits import TransportLimits

_LARGE_READ: Final = 64 * 1024
"""Bytes of a read after which the socket rests until the loop's next turn: as long as a server that floods has more,
uvloop would read it 32 times in one turn, 8 MB, during which nobody else gets a word."""


class Home(Protocol):
    """The pool as its connections see it."""

    outbox: Outbox
    """Where requests wait for the end of the turn."""

    def opened(self, connection: Connection) -> None:
        """The connection is there."""

    def idle(self, connection: Connection) -> None:
        """The connection may be used again."""

    def lost(self, connection: Connection) -> None:
        """The connection is no more."""


class Connection:
    """A connection to *origin*, for one exchange at a time: an `asyncio.Protocol` that is given whole reads."""

    __slots__ = (
        "_congested",
        "_drain",
        "_head",
        "_held",
        "_home",
        "_last",
        "_limits",
        "_loop",
        "_outgoing",
        "_parser",
        "_response",
        "_resting",
        "_sent",
        "_stopped",
        "_transport",
        "closed",
        "idle_since",
        "origin",
        "readable",
        "taken_at",
    )

    readable: select.poll
    """Whether the server has sent anything or ended the connection, seen by the loop or not.

    The loop alone may be a turn behind: an unasked-for response would then be taken for the next request's, and a
    request be written to a connection that has ended. Of a connection that is `closed` it must not be asked.
    """

    def __init__(self, origin: Origin, home: Home, limits: TransportLimits) -> None:
        self.origin = origin
        self.idle_since = 0.0  # until it is used for the first time
        self.taken_at = 0.0
        self.closed = False
        self._home = home
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._parser = ResponseParser(limits)
        self._transport: asyncio.Transport | None = None
        self._response: UpstreamResponse | None = None
        self._head: asyncio.Future[None] | None = None
        self._drain: asyncio.Future[None] | None = None
        self._outgoing = b""  # a whole request, until the end of the turn
        self._congested = self._held = self._resting = self._stopped = self._sent = self._last = False

    # for the transport

    def ask(
        self, request: bytes, *, head_request: bool = False, last: bool = False
    ) -> tuple[UpstreamResponse, asyncio.Future[None]]:
        """Send a whole *request*; the response to come, and what is to be awaited until its head is there.

        Must be given up (`give_up`) where that fails or is cancelled, of which it raises ReadError and
        RemoteProtocolError itself. *last*: the connection is closed afterwards. Where *request* is empty, the caller
        writes one. A connection from the pool has to be asked in the turn in which it was taken.
        """
        if head_request:
            self._parser.start(head_request=True)
        transport = self._transport
        if self.closed or transport is None:
            raise httpx.RemoteProtocolError("the server closed the connection without a response")
        response = self._response = UpstreamResponse(self, self._limits.body_buffer)
        head = self._head = self._loop.create_future()
        self._last = last
        self._sent = False
        if request:
            if self._home.outbox.delays(self, self._loop):
                self._outgoing = request
            else:
                self._sent = True
                try:
                    transport.write(request)
                except BaseException:
                    self.give_up(response, head)
                    raise
        return response, head

    def give_up(self, response: UpstreamResponse, head: asyncio.Future[None]) -> None:
        """Close at once: nobody waits for *response* any more, of which *head* was awaited."""
        if self._response is response:  # else it is whole, and the connection may be another request's by now
            self._response = self._head = None
            self.abort()
        if head.done() and not head.cancelled():
            head.exception()  # seen: the loop has nothing to complain about

    async def exchange(
        self, out: Outgoing, *, head_request: bool = False, read: float | None = None, write: float | None = None
    ) -> UpstreamResponse:
        """Send a request of any kind and await the head of its response.

        *write* bounds each wait for the server to take more, *read* the wait for the head from then on (seconds).
        Raises ReadError, RemoteProtocolError, ReadTimeout, WriteTimeout and what `send` raises. The connection is
        closed at once when this fails or is cancelled.
        """
        request, content = out.one_write, out.content
        response, head = self.ask(request, head_request=head_request, last=out.last)
        try:
            if not isinstance(content, bytes):
                self._sent = await send_listening(self, out, write, head)
            elif not request:
                self._sent = await send(self, out, write)
            if read is None:
                await head
            else:
                await within(head, read, httpx.ReadTimeout, "the server sent no response in time")
        except BaseException:
            self.give_up(response, head)
            raise
        return response

    @property
    def heard(self) -> bool:
        """Whether a byte of the latest response has arrived."""
        return self._parser.started

    @property
    def is_lost_unheard(self) -> bool:
        """Whether it ended before a byte of the response, and so soon that the server had ended it before."""
        return not self.heard and self._loop.time() - self.taken_at < self._limits.retry_seconds

    def abort(self) -> None:
        """Close at once, whatever is unsent or unread."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    # for the sender

    @property
    def answered(self) -> bool:
        """The response has begun, or none will come."""
        return self._head is None

    def release(self) -> None:
        """Send the request that waited for the end of the turn, unless its exchange is over."""
        data, self._outgoing = self._outgoing, b""
        if self._response is None:
            return
        if self.idle_since and (self.closed or self.readable.poll(0)):
            self.abort()  # what has come meanwhile answers nothing; see `data_received`
            return
        self._sent = True
        self.write(data)

    def write(self, data: bytes | memoryview) -> None:
        """Hand bytes to the loop."""
        if self._transport is not None and not self.closed:
            self._transport.write(data)

    async def drained(self, seconds: float | None) -> None:
        """Return when more may be written or `answered`; raise WriteTimeout after *seconds* of neither."""
        while self._congested and self._head is not None:
            self._drain = self._loop.create_future()
            try:
                await within(self._drain, seconds, httpx.WriteTimeout, "the server did not take the request in time")
            finally:
                self._drain = None

    # for the response

    def hold_reading(self, hold: bool) -> None:
        """Stop or go on reading the socket."""
        self._held = hold
        self._regulate()

    def leave(self) -> None:
        """The consumer of the response wants no more of it."""
        self._settle()

    # for the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected, and TLS agreed upon."""
        self._transport = cast("asyncio.Transport", transport)
        self.readable = select.poll()
        self.readable.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self._home.opened(self)

    def data_received(self, data: bytes) -> None:
        """One read."""
        response = self._response
        # Nothing was asked for, or not yet: of a server that was asked before, that is no answer to what is asked next.
        if response is None or (self._outgoing and self.idle_since):
            self.abort()
            return
        if len(data) >= _LARGE_READ:
            self._rest()
        parser = self._parser
        data = parser.feed(data)
        head = self._head
        if head is not None and parser.head_complete:
            self._head = None
            response.status, response.headers, response.is_encoded = parser.status, parser.headers, parser.is_encoded
            if not head.done():
                head.set_result(None)
            if self._drain is not None:
                self._wake()
        if parser.complete:
            self._settle()
            response.end(None, data)
            return
        if data:
            response.feed(data)
        if parser.error is not None and response is self._response:
            self._finish(response, parser.error)

    def eof_received(self) -> None:
        """The server has said all it will; the loop closes the connection, as nothing is left to say to it."""
        self.closed = True
        if self._response is not None:
            self._parser.end_of_input()
            self._finish(self._response, self._parser.error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Closed by either side, or lost."""
        closed_here, self.closed = self.closed, True
        self._transport = None
        if self._response is not None:
            error: httpx.TransportError | None
            if closed_here:
                error = httpx.ReadError("the connection was closed on this side")
            elif exc is not None:
                error = httpx.ReadError(f"the connection to the server was lost: {exc}")
            elif self.heard:
                # uvloop, TLS: the connection ended without TLS saying so, which anybody on the way can do.
                error = httpx.ReadError("the connection to the server was cut")
            else:
                self._parser.end_of_input()
                error = self._parser.error
            self._finish(self._response, error)
        self._parser.discard()
        self._home.lost(self)

    def pause_writing(self) -> None:
        """The server takes the request more slowly than it is sent."""
        self._congested = True

    def resume_writing(self) -> None:
        """It has caught up."""
        self._congested = False
        self._wake()

    # within

    def _finish(self, response: UpstreamResponse, error: httpx.TransportError | None) -> None:
        """The response is over, for good or ill."""
        head, self._head = self._head, None
        self._settle()
        if self._drain is not None:
            self._wake()
        if head is not None and not head.done():
            head.set_exception(error or httpx.RemoteProtocolError("no response"))
        response.end(error)

    def _settle(self) -> None:
        """End the exchange: back to the pool, or closed when anything is left of it."""
        self._response = None
        transport = self._transport
        if (
            self._parser.reusable
            and self._sent
            and not self._last
            and not self.closed
            and transport is not None
            and transport.get_write_buffer_size() == 0
        ):
            if self._held:
                self.hold_reading(False)
            self._parser.start()  # for the next response: who asks for it does not wait for this
            self.idle_since = self._loop.time()
            self._home.idle(self)
        else:
            self.abort()

    def _rest(self) -> None:
        """Read no more in this turn of the loop."""
        if not self._resting:
            self._resting = True
            self._regulate()
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._resting = False
        self._regulate()

    def _regulate(self) -> None:
        stop = self._held or self._resting
        transport = self._transport
        if stop is not self._stopped and transport is not None and not self.closed and not transport.is_closing():
            self._stopped = stop
            if stop:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def _wake(self) -> None:
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)
