"""Connections to reuse: a stack per origin, so that taking and returning one costs the same for one or a thousand."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, cast

import httpx

from svir_proxy.outbox import Outbox
from svir_proxy.server.transport.connection import Connection

if TYPE_CHECKING:
    from svir_proxy.server.transport.head import Origin
    from svir_proxy.server.transport.limits import TransportLimits


class Pool:
    """The connections of one transport, in the event loop that runs when it is made.

    There is no upper limit: a model server queues by itself, and a proxy that queues before it hides that.
    """

    def __init__(self, ssl_context: ssl.SSLContext | None, limits: TransportLimits) -> None:
        self._ssl_context = ssl_context
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._idle: dict[Origin, deque[Connection]] = {}
        self._connections: set[Connection] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.outbox = Outbox()
        """Where requests wait for the end of the turn."""
        self._emptied: asyncio.Future[None] | None = None

    def take(self, origin: Origin) -> Connection | None:
        """The connection that was used last, or None. Its server has neither sent anything nor ended it."""
        stack = self._idle.get(origin)
        if not stack:
            return None
        now = self._loop.time()
        oldest = now - self._limits.idle_seconds
        while stack:
            connection = stack.pop()
            if connection.idle_since > oldest and not connection.closed and not connection.readable.poll(0):
                connection.taken_at = now
                return connection
            connection.abort()
        return None

    async def connect(self, origin: Origin, seconds: float | None) -> Connection:
        """A new connection, TLS included. Raises ConnectError; ConnectTimeout after *seconds*."""
        if self._closed:
            raise RuntimeError("the transport is closed")
        scheme, raw_host, port = origin
        host = raw_host.decode("ascii")
        secure = scheme == b"https"
        connection = Connection(origin, self, self._limits)
        try:
            async with asyncio.timeout(seconds) as timer:
                await self._loop.create_connection(
                    lambda: cast("asyncio.Protocol", connection),
                    host,
                    port,
                    ssl=(self._ssl_context or usual_context()) if secure else None,
                    server_hostname=host if secure else None,
                )
        except BaseException as exc:
            # An attempt that is given up may have got as far as a connection; uvloop does not tell of its end then.
            connection.abort()
            self.lost(connection)
            if isinstance(exc, TimeoutError) and timer.expired():
                raise httpx.ConnectTimeout(f"no connection to {host}:{port} within {seconds:g} s") from None
            if isinstance(exc, (OSError, UnicodeError)):
                raise httpx.ConnectError(f"cannot connect to {host}:{port}: {exc}") from exc
            raise
        if self._closed:
            raise httpx.ConnectError("the transport was closed")
        return connection

    async def close(self) -> None:
        """Close every connection, those in use too, and wait until they are gone."""
        self._closed = True
        self._idle.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._connections:
            if self._emptied is None:
                self._emptied = self._loop.create_future()
            for connection in tuple(self._connections):
                connection.abort()
            await asyncio.shield(self._emptied)

    # for the connections

    def opened(self, connection: Connection) -> None:
        """Keep account of *connection*."""
        if self._closed or connection.closed:
            connection.abort()
        else:
            self._connections.add(connection)

    def idle(self, connection: Connection) -> None:
        """Keep *connection* for a while."""
        stack = self._idle.get(connection.origin)
        if stack is None:
            stack = self._idle[connection.origin] = deque()
        stack.append(connection)
        if len(stack) > self._limits.idle_connections:
            stack.popleft().abort()
        if self._timer is None:
            self._timer = self._loop.call_later(self._limits.idle_seconds, self._expire)

    def lost(self, connection: Connection) -> None:
        """Forget *connection*; in its stack it is passed over."""
        self._connections.discard(connection)
        if self._emptied is not None and not self._connections and not self._emptied.done():
            self._emptied.set_result(None)

    def _expire(self) -> None:
        """Close what has been idle for too long, then sleep until the next one is."""
        limit = self._loop.time() - self._limits.idle_seconds
        oldest = None
        for stack in self._idle.values():
            while stack and stack[0].idle_since <= limit:
                stack.popleft().abort()
            if stack and (oldest is None or stack[0].idle_since < oldest):
                oldest = stack[0].idle_since
        self._timer = None
        if oldest is not None:
            self._timer = self._loop.call_at(oldest + self._limits.idle_seconds, self._expire)


@cache
def usual_context() -> ssl.SSLContext:
    """What httpx verifies with; reading all authorities takes 30 ms, in which no stream gets a word."""
    return httpx.create_ssl_context()
