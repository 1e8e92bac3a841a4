"""One client's connection: bytes to requests for the application, its messages to bytes.

Requests are parsed as they come and answered one after the other. A single timer watches over whatever the client may
draw out (see `ClientLimits`); while an answer is being made it only looks in.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote_to_bytes

import httptools

from svir_proxy.errors import ProxyError
from svir_proxy.listener.cycle import Cycle
from svir_proxy.listener.heads import response_head, without_upgrade
from svir_proxy.listener.limits import ClientLimits

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import Scope
    from uvicorn.server import ServerState

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_VERSIONS: Final = frozenset({"1.0", "1.1"})


class _Refused(Exception):  # noqa: N818 - it stops llhttp from within a callback and never leaves this module
    """The request is no request; the text says why."""


class ClientConnection(asyncio.Protocol):
    """A connection, as uvicorn's server makes it.

    The ``on_*`` methods are httptools' interface and nobody else's.
    """

    __slots__ = (
        *("_app", "_app_state", "_client", "_connections", "_counted", "_cycle", "_drained", "_expects"),
        *("_headers", "_in_message", "_last", "_limits", "_loop", "_parser", "_progress", "_queue", "_refusal"),
        *("_resting", "_scheme", "_server", "_since", "_state", "_tasks", "_timer", "_transport", "_unsent", "_url"),
        "is_congested",
    )

    is_congested: bool
    """Whether a writer should wait; see `drained`."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: ClientLimits | None = None,
    ) -> None:
        self._app = config.loaded_app
        self._app_state = app_state
        self._state = server_state
        self._connections = cast("set[Any]", server_state.connections)
        self._tasks = server_state.tasks
        self._limits = limits or ClientLimits()
        self._loop = _loop or asyncio.get_running_loop()
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._server: tuple[str, int | None] | None = None
        self._client: tuple[str, int] | None = None
        self._scheme = "http"
        self._cycle: Cycle | None = None  # the one that is being answered
        self._queue: deque[Cycle] | None = None  # those that came after it, pipelined
        self._drained: asyncio.Future[None] | None = None
        self.is_congested = self._resting = False
        self._unsent = 0
        # of the request that is being parsed
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._in_message = self._expects = self._progress = False
        self._counted = 0
        self._last = False  # no request may follow the one that was parsed last
        self._refusal: ProxyError | None = None  # told once the requests before are answered
        self._since = self._loop.time()  # when the client's present turn began
        self._timer: asyncio.TimerHandle | None = None

    # for the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepted."""
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)
        self._server = _address(transport.get_extra_info("sockname"))
        self._client = cast("tuple[str, int] | None", _address(transport.get_extra_info("peername")))
        if transport.get_extra_info("sslcontext") is not None:
            self._scheme = "https"
        self._timer = self._loop.call_later(self._limits.shortest, self._check)

    def data_received(self, data: bytes) -> None:
        """One read."""
        if self._refusal is not None or self._parser is None:
            return
        if not self._in_message:
            if not self._counted:
                self._since = self._loop.time()
            data = without_upgrade(data)
        self._progress = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as exc:
            if self._last and not self._in_message:
                return  # bytes after a request that said it is the last
            said = exc.__context__ if isinstance(exc.__context__, _Refused) else exc
            self._refuse(ProxyError("invalid_request", f"The request is not valid HTTP: {said}."))
            return
        if self._progress:
            self._counted = 0
            if self._cycle is not None and not self._cycle.complete:
                self._since = self._loop.time()
        else:
            self._counted += len(data)
            if self._counted > self._limits.head_bytes:
                self._refuse(
                    ProxyError("invalid_request", "The head or the trailer of the request is too long."),
                )

    def eof_received(self) -> None:
        """The client says no more. Who hangs up cannot be told from who only waits, so nobody is kept waiting for."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Closed by either side, or lost."""
        del exc
        self._connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._parser = None
        self._transport = None
        self._release_writers()
        for cycle in (self._cycle, *(self._queue or ())):
            if cycle is not None:
                cycle.disconnect()
        self._cycle = self._queue = None

    def pause_writing(self) -> None:
        """The client takes its answer more slowly than it is written."""
        self.is_congested = True
        self._since = self._loop.time()
        self._unsent = self._buffered()

    def resume_writing(self) -> None:
        """It has caught up."""
        self.is_congested = False
        self._release_writers()

    # for uvicorn

    def shutdown(self) -> None:
        """Finish what is being answered, and close."""
        self._last = True
        if self._cycle is None and self._transport is not None:
            self._transport.close()

    # for the cycles

    def future(self) -> asyncio.Future[None]:
        """A future of the connection's loop."""
        return self._loop.create_future()

    async def drained(self) -> None:
        """Return when more may be written, or nothing can be written any more."""
        while self.is_congested and self._transport is not None:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)

    def write(self, data: bytes) -> None:
        """Hand bytes to the loop."""
        if self._transport is not None:
            self._transport.write(data)

    def closes_after(self, cycle: Cycle) -> bool:
        """Whether the answer to *cycle* is the last on this connection."""
        return self._last and not self._queue and cycle is self._cycle

    def rest(self, rest: bool) -> None:
        """Stop or go on reading the socket."""
        if rest is not self._resting and self._transport is not None and not self._transport.is_closing():
            self._resting = rest
            if rest:
                self._transport.pause_reading()
            else:
                self._since = self._loop.time()
                self._transport.resume_reading()

    def answered(self, cycle: Cycle) -> None:
        """*cycle* has its whole answer."""
        if cycle is not self._cycle:
            return
        self._state.total_requests += 1
        transport = self._transport
        if transport is None:
            return
        self._since = self._loop.time()
        self._last = self._last or cycle.closes
        if not cycle.more_body:
            self._go_on()
        elif cycle.expects:
            transport.close()
        else:
            # Most clients send all of a body before they read. It is dropped, for as long as one piece of it may take.
            if cycle.closes:
                transport.write_eof()
            self.rest(rest=False)

    def abort(self) -> None:
        """Close at once: the answer cannot be completed."""
        if self._transport is not None:
            self._transport.abort()

    # for httptools

    def on_message_begin(self) -> None:
        """A request begins."""
        self._url = b""
        self._headers = []
        self._expects = False

    def on_url(self, url: bytes) -> None:
        """A piece of the request target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field; a trailer's field comes here too, and is nothing to anybody."""
        if self._in_message:
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The end of a head: a request can be served."""
        parser = self._parser
        assert parser is not None
        version = parser.get_http_version()
        if version not in _VERSIONS:
            raise _Refused("only HTTP/1.0 and HTTP/1.1 are spoken here")
        scope = self._scope(parser.get_method().decode("ascii"), version)
        self._progress = self._in_message = True
        self._last = self._last or version == "1.0" or not parser.should_keep_alive()
        cycle = Cycle(scope, self, self._limits.body_buffer, expects=self._expects and version == "1.1")
        if self._cycle is None:
            self._start(cycle)
        else:
            if self._queue is None:
                self._queue = deque()
            self._queue.append(cycle)
            self.rest(rest=True)

    def on_body(self, body: bytes) -> None:
        """A piece of the body of the request that is being parsed."""
        self._progress = True
        self._newest().take(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._in_message = False
        cycle = self._newest()
        cycle.end()
        if cycle.complete and cycle is self._cycle:
            self._go_on()

    # within

    def _newest(self) -> Cycle:
        cycle = self._queue[-1] if self._queue else self._cycle
        assert cycle is not None
        return cycle

    def _scope(self, method: str, version: str) -> Scope:
        target = self._url
        if target[:1] == b"/" and b"?" not in target and b"#" not in target:
            raw_path, query = target, b""
        else:
            url = httptools.parse_url(target)
            raw_path, query = url.path or b"/", url.query or b""
        if not raw_path.isascii():
            raise _Refused("the request target holds bytes that are no ASCII")
        path = unquote_to_bytes(raw_path) if b"%" in raw_path else raw_path
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "server": self._server,
            "client": self._client,
            "scheme": self._scheme,
            "method": method,
            "root_path": "",
            "path": path.decode("utf-8", "replace"),
            "raw_path": raw_path,
            "query_string": query,
            "headers": self._headers,
            "state": self._app_state.copy(),
        }

    def _start(self, cycle: Cycle) -> None:
        """Have the application answer *cycle*."""
        self._cycle = cycle
        if len(self._connections) > self._limits.connections:
            self._last = True
            cycle.refuse(
                ProxyError(
                    "overloaded",
                    f"The proxy has {self._limits.connections} connections open (server.max_connections).",
                    retry_after=1,
                )
            )
            return
        cycle.task = self._loop.create_task(cycle.run(self._app, self._tasks))
        self._tasks.add(cycle.task)

    def _go_on(self) -> None:
        """The answer is out and the request all read: the next one, if any."""
        if self._queue:
            self._start(self._queue.popleft())
            return
        self._cycle = None
        self._since = self._loop.time()
        if self._refusal is not None:
            self._tell(self._refusal)
        elif self._last and self._transport is not None:
            self._transport.close()
        else:
            self.rest(rest=False)

    def _refuse(self, error: ProxyError) -> None:
        """Read no more; tell why, once the requests before are answered."""
        self._refusal = error
        cycle = self._cycle
        if self._in_message and cycle is not None:
            broken = self._newest()
            if self._queue:
                self._queue.pop()
            else:
                self._cycle = None
                begun = broken.started
                broken.disconnect()
                if begun:
                    self.abort()
                    return
        if self._cycle is None:
            self._tell(error)

    def _tell(self, error: ProxyError) -> None:
        """Answer what is no request, and close."""
        body = error.body()
        head = response_head(
            error.status,
            [
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(body)),
                (b"connection", b"close"),
                (b"x-request-id", os.urandom(16).hex().encode("ascii")),
                *error.headers(),
            ],
        )
        if self._transport is not None:
            self._transport.write(head.data + b"\r\n\r\n" + body)
            self._transport.close()

    def _release_writers(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def _buffered(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def _allowed(self) -> float:
        """How long the client's present turn may take."""
        limits = self._limits
        if self.is_congested:
            return limits.write
        if self._in_message:
            return math.inf if self._resting else limits.body
        if self._cycle is not None:
            return math.inf
        return limits.head if self._counted else limits.idle

    def _check(self) -> None:
        """End what has taken too long; look in again when the next limit may be over."""
        now = self._loop.time()
        if self.is_congested and (unsent := self._buffered()) < self._unsent:
            self._unsent, self._since = unsent, now
        allowed = self._allowed()
        if self._since + allowed > now:
            self._timer = self._loop.call_at(min(self._since + allowed, now + self._limits.shortest), self._check)
            return
        self._timer = None
        if self.is_congested:
            self.abort()
        elif self._in_message or self._counted:
            what, setting = ("body", "body_seconds") if self._in_message else ("head", "head_seconds")
            self._refuse(
                ProxyError(
                    "request_timeout",
                    f"The {what} of the request did not come within {allowed:g} s (server.{setting} of the proxy).",
                )
            )
        elif self._transport is not None:
            self._transport.close()


def _address(info: object) -> tuple[str, int | None] | None:
    """A socket's address as ASGI has it; None for one without a port."""
    if isinstance(info, (tuple, list)) and len(info) >= 2:
        return str(info[0]), int(info[1])
    return None
