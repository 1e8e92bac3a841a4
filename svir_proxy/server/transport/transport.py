"""httpx's interface to the project's own connections.

httpx objects stay the interface, so that `httpx.MockTransport` serves in tests and the stock transport where a proxy
must be passed; httpcore itself is out of the way, because the price of a request there grows with the number of open
connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import httpx

from svir_proxy.server.transport.head import ONE_WRITE, origin_of, outgoing
from svir_proxy.server.transport.limits import TransportLimits
from svir_proxy.server.transport.pool import Pool
from svir_proxy.server.transport.stream import ResponseStream

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Coroutine

    from svir_proxy.server.transport.connection import Connection
    from svir_proxy.server.transport.head import Origin, Outgoing, PostHead
    from svir_proxy.server.transport.response import UpstreamResponse

RESPONSE: Final = "upstream_response"
"""The extension of an `httpx.Response` that holds the `UpstreamResponse` it stands for."""

_LOST: Final = (httpx.ReadError, httpx.RemoteProtocolError)
"""How a connection fails that the server had closed before it answered."""


class UpstreamTransport(httpx.AsyncBaseTransport):
    """HTTP/1.1 to model servers. One event loop; `aclose` in the end.

    Limits of time come from ``request.extensions["timeout"]``: *connect* (with TLS), *write* (each wait for the server
    to take more of the request), *read* (the wait for the response head, from the last byte of the request on).
    *pool* means nothing here. The body has no limit of time: only its consumer knows what silence means.

    ``response.stream`` is the body of ``response.extensions["upstream_response"]``, an `UpstreamResponse`. Its bytes
    are as sent: a content-encoding is the consumer's to undo (`content_decoder`), which httpx's own ``aread`` and
    ``aiter_bytes`` do without a bound.

    Bytes contents go over kept-alive connections, and once more over a new one when the server had closed the old one
    before it answered. Streams cannot be sent again, so each gets a new connection.

    Raises httpx's ConnectError, ConnectTimeout, WriteTimeout, ReadTimeout, ReadError (connection lost),
    RemoteProtocolError, LocalProtocolError, UnsupportedProtocol. Their texts never quote a header or a body.
    """

    def __init__(self, *, ssl_context: ssl.SSLContext | None = None, limits: TransportLimits | None = None) -> None:
        """*ssl_context*: for other authorities than httpx's, or a client certificate; None verifies as httpx does."""
        self._pool = Pool(ssl_context, limits or TransportLimits())

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send *request*; the response comes with its head, its body as it arrives. Close the response."""
        timeout = request.extensions.get("timeout") or {}
        try:
            response = await self._exchange(
                origin_of(request.url),
                outgoing(request),
                timeout.get("connect"),
                read=timeout.get("read"),
                write=timeout.get("write"),
                head_request=request.method == "HEAD",
            )
        except httpx.RequestError as exc:
            exc.request = request
            raise
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=ResponseStream(response),
            extensions={RESPONSE: response},
            request=request,
        )

    def post(
        self,
        head: PostHead,
        content: bytes,
        connect: float | None,
        *,
        read: float | None = None,
        write: float | None = None,
    ) -> Coroutine[Any, Any, UpstreamResponse]:
        """Send *content* behind a prepared *head*: `handle_async_request` without httpx's objects, for the many.

        Over a kept connection it is sent now; all else is done where the result is awaited, which must be in the same
        turn of the loop. *connect*, *read* and *write* are its limits of time, in seconds.
        """
        length = len(content)
        if length > ONE_WRITE or read is not None or (kept := self._pool.take(head.origin)) is None:
            return self._exchange(head.origin, head.outgoing(content), connect, read=read, write=write)
        request = b"%bcontent-length: %d\r\n\r\n%b" % (head.lines, length, content)
        asked = kept.ask(request, last=head.last)
        return self._answered(kept, asked, head, content, connect=connect, write=write)

    async def _answered(
        self,
        kept: Connection,
        asked: tuple[UpstreamResponse, asyncio.Future[None]],
        head: PostHead,
        content: bytes,
        *,
        connect: float | None,
        write: float | None,
    ) -> UpstreamResponse:
        """The response that *kept* was *asked* for; where the server had closed that, another connection is asked."""
        response, answered = asked
        try:
            await answered
        except BaseException as exc:
            kept.give_up(response, answered)
            if not isinstance(exc, _LOST) or not kept.is_lost_unheard:
                raise
        else:
            return response
        fresh = await self._pool.connect(head.origin, connect)
        return await fresh.exchange(head.outgoing(content), write=write)

    async def aclose(self) -> None:
        """Close all connections; responses that are being read end with ReadError."""
        await self._pool.close()

    async def _exchange(
        self,
        origin: Origin,
        out: Outgoing,
        connect: float | None,
        *,
        read: float | None,
        write: float | None,
        head_request: bool = False,
    ) -> UpstreamResponse:
        if isinstance(out.content, bytes) and (kept := self._pool.take(origin)) is not None:
            try:
                return await kept.exchange(out, head_request=head_request, read=read, write=write)
            except _LOST:
                if not kept.is_lost_unheard:
                    raise
        fresh = await self._pool.connect(origin, connect)
        return await fresh.exchange(out, head_request=head_request, read=read, write=write)
