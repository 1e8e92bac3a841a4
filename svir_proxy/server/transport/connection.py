"""One connection to a server: the loop's callbacks on one side, a request and its response on the other.

A connection is idle, in an exchange, or closed. In an exchange `_body` is set; `_head` is set as long as the response
head has not come. Both are cleared before anybody is told, so that a consumer may do anything from within a callback.
"""

from __future__ import annotations

import asyncio
import select
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

import httpx

from svir_proxy.server.transport.body import UpstreamBody
from svir_proxy.server.transport.parser import ResponseParser
from svir_proxy.server.transport.sending import send, send_listening
from svir_proxy.server.transport.waiting import within

if TYPE_CHECKING:
    from svir_proxy.outbox import Outbox
    from svir_proxy.server.transport.head import Origin, Outgoing
    from svir_proxy.server.transport.limits import TransportLimits

Headers = list[tuple[bytes, bytes]]
_ONE_WRITE: Final = 64 * 1024
"""Bytes up to which a content is copied behind its head, to leave in one segment and one system call."""

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


class UpstreamResponse(NamedTuple):
    """A response whose head has come. Its body must be closed."""

    status: int
    headers: Headers
    body: UpstreamBody


class Connection(asyncio.Protocol):
    """A connection to *origin*, for one exchange at a time."""

    __slots__ = (
        "_body",
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
        "_readable",
        "_resting",
        "_sent",
        "_stopped",
        "_transport",
        "closed",
        "idle_since",
        "origin",
    )

    def __init__(self, origin: Origin, home: Home, limits: TransportLimits) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self.closed = False
        self._home = home
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._parser = ResponseParser(limits)
        self._transport: asyncio.Transport | None = None
        self._body: UpstreamBody | None = None
        self._head: asyncio.Future[tuple[int, Headers]] | None = None
        self._drain: asyncio.Future[None] | None = None
        self._outgoing = b""  # a whole request, until the end of the turn
        self._congested = self._held = self._resting = self._stopped = self._sent = self._last = False

    # for the transport

    async def exchange(
        self, out: Outgoing, *, head_request: bool = False, read: float | None = None, write: float | None = None
    ) -> UpstreamResponse:
        """Send a request and await the head of its response.

        *write* bounds each wait for the server to take more, *read* the wait for the head from then on (seconds).
        Raises ReadError, RemoteProtocolError, ReadTimeout, WriteTimeout and what `send` raises. The connection is
        closed at once when this fails or is cancelled.
        """
        self._parser.start(head_request=head_request)
        if self.closed:
            raise httpx.RemoteProtocolError("the server closed the connection without a response")
        body = self._body = UpstreamBody(self, self._limits.body_buffer)
        head = self._head = self._loop.create_future()
        self._sent = False
        self._last = out.last
        try:
            if not isinstance(out.content, bytes):
                self._sent = await send_listening(self, out, write, head)
            elif out.length is None or out.length > _ONE_WRITE:
                self._sent = await send(self, out, write)
            else:
                self._outgoing = out.head + out.content
                self._home.outbox.put(self, self._loop)
            if read is None:
                status, headers = await head
            else:
                status, headers = await within(head, read, httpx.ReadTimeout, "the server sent no response in time")
        except BaseException:
            if self._body is body:  # else the response is whole, and the connection may be another request's by now
                self._body = self._head = None
                self.abort()
            if head.done() and not head.cancelled():
                head.exception()  # seen: the loop has nothing to complain about
            raise
        return UpstreamResponse(status, headers, body)

    @property
    def heard(self) -> bool:
        """Whether a byte of the latest response has arrived."""
        return self._parser.started

    @property
    def idle_seconds(self) -> float:
        """How long it has not been used."""
        return self._loop.time() - self.idle_since

    def is_quiet(self) -> bool:
        """Whether the server has neither sent anything nor ended the connection, seen by the loop or not.

        The loop alone may be a turn behind: an unasked-for response would then be taken for the next request's, and
        a request be written to a connection that has ended.
        """
        return not self.closed and not self._readable.poll(0)

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
        if self._body is None:
            return
        if self.idle_since and not self.is_quiet():
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

    # for the body

    def hold_reading(self, hold: bool) -> None:
        """Stop or go on reading the socket."""
        self._held = hold
        self._regulate()

    def leave(self) -> None:
        """The consumer of the body wants no more of it."""
        self._settle()

    # for the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected, and TLS agreed upon."""
        self._transport = cast("asyncio.Transport", transport)
        self._readable = select.poll()
        self._readable.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self._home.opened(self)

    def data_received(self, data: bytes) -> None:
        """One read."""
        body = self._body
        # Nothing was asked for, or not yet: of a server that was asked before, that is no answer to what is asked next.
        if body is None or (self._outgoing and self.idle_since):
            self.abort()
            return
        if len(data) >= _LARGE_READ:
            self._rest()
        parser = self._parser
        data = parser.feed(data)
        if self._head is not None and parser.head_complete:
            head, self._head = self._head, None
            if not head.done():
                head.set_result((parser.status, parser.headers))
            if self._drain is not None:
                self._wake()
        if data:
            body.feed(data)
        if (parser.complete or parser.error is not None) and body is self._body:
            self._finish(body, parser.error)

    def eof_received(self) -> None:
        """The server has said all it will; the loop closes the connection, as nothing is left to say to it."""
        self.closed = True
        if self._body is not None:
            self._parser.end_of_input()
            self._finish(self._body, self._parser.error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Closed by either side, or lost."""
        closed_here, self.closed = self.closed, True
        self._transport = None
        if self._body is not None:
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
            self._finish(self._body, error)
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

    def _finish(self, body: UpstreamBody, error: httpx.TransportError | None) -> None:
        """The response is over, for good or ill."""
        head, self._head = self._head, None
        self._settle()
        if self._drain is not None:
            self._wake()
        if head is not None and not head.done():
            head.set_exception(error or httpx.RemoteProtocolError("no response"))
        body.end(error)

    def _settle(self) -> None:
        """End the exchange: back to the pool, or closed when anything is left of it."""
        self._body = None
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
