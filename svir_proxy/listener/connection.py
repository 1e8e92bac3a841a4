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
from svir_proxy.known_head import Headers, HeadMemory
from svir_proxy.listener.cycle import Cycle
from svir_proxy.listener.heads import authority, request_head, response_head
from svir_proxy.listener.limits import ClientLimits
from svir_proxy.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable

    import uvicorn
    from starlette.types import Scope
    from uvicorn.server import ServerState

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_VERSIONS: Final = frozenset({"1.0", "1.1"})
_TELLING: Final = frozenset({b"expect", b"host", b"transfer-encoding"})
"""Fields that are for the connection, too."""


class _Refused(Exception):  # noqa: N818 - it stops llhttp from within a callback and never leaves this module
    """The request is not served; *error* says why."""

    def __init__(self, why: str | ProxyError) -> None:
        self.error = why if isinstance(why, ProxyError) else _no_http(why)


class ClientConnection:
    """A connection, as uvicorn's server makes it: an `asyncio.Protocol`, if not by name.

    The ``on_*`` methods are httptools' interface and nobody else's.
    """

    __slots__ = (
        *("_answer", "_app", "_app_state", "_arriving", "_behind", "_client", "_connections", "_counted"),
        *("_cycle", "_drained", "_draining", "_excess", "_expects", "_framed", "_headers", "_host", "_in_head"),
        *("_heads", "_in_message", "_limits", "_lingers", "_loop", "_offer", "_outbox", "_parser", "_plain"),
        *("_progress", "_queue", "_refusal", "_scheme", "_server", "_since", "_state", "_tasks"),
        *("_timer", "_transport", "_uncounted", "_unsent", "_url", "is_congested", "is_last"),
        "is_resting",
    )

    is_congested: bool
    """Whether a writer should wait; see `drained`."""
    is_resting: bool
    """Whether nothing is read."""
    is_last: bool
    """Whether no request may follow the one that was parsed last."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: ClientLimits | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        self._app = config.loaded_app
        self._app_state = app_state
        self._state = server_state
        self._connections = cast("set[Any]", server_state.connections)
        self._tasks = server_state.tasks
        self._limits = limits or ClientLimits()
        self._outbox = outbox or Outbox()
        self._answer = b""  # a whole one, until the end of the turn
        self._loop = _loop or asyncio.get_running_loop()
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._server: tuple[str, int | None] | None = None
        self._client: tuple[str, int] | None = None
        self._scheme = "http"
        self._cycle: Cycle | None = None  # the one that is being answered
        self._queue: deque[Cycle] | None = None  # those that came after it, pipelined
        self._behind = 0  # bytes that came while there were any
        self._excess = False  # there were as many connections as there may be when this one came
        self._drained: asyncio.Future[None] | None = None
        self.is_congested = self.is_resting = False
        self._unsent = 0  # of what nothing is added to, when it was last looked at
        self._plain = (b"/", "/")  # the last target that is no more than a path: most clients have but one
        self._heads: HeadMemory[Scope] = HeadMemory()
        # of the request that is being parsed
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._host = self._framed = self._expects = self._offer = False
        self._in_head = self._in_message = self._progress = False
        self._uncounted = False  # the head began in a read that held more
        self._counted = self._arriving = 0
        self.is_last = False
        self._draining = False
        self._lingers = False  # nothing is said any more, and what still comes is dropped
        self._refusal: ProxyError | None = None  # told once the requests before are answered
        self._since = self._loop.time()  # when the client's present turn began
        self._timer: asyncio.TimerHandle | None = None

    # for the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepted."""
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)
        self._excess = len(self._connections) > self._limits.connections
        self._server = _address(transport.get_extra_info("sockname"))
        self._client = cast("tuple[str, int] | None", _address(transport.get_extra_info("peername")))
        if transport.get_extra_info("sslcontext") is not None:
            self._scheme = "https"
        self._timer = self._loop.call_later(self._limits.shortest, self._check)
        if len(self._connections) > self._limits.heard:
            self.abort()

    def data_received(self, data: bytes) -> None:
        """One read."""
        if self._refusal is not None or self._lingers:
            return
        assert self._parser is not None
        now = self._loop.time()
        is_new = not (self._in_head or self._counted or self._in_message)
        if is_new and not self.is_congested:
            self._since = now
        follows = is_new and self._cycle is None and not self.is_last  # all before it is answered
        if follows and (known := self._heads.read(data)) is not None:
            self._serve(*known)
            return
        self._progress = False
        self._arriving = self._counted + len(data)
        behind_offer: bytes | None = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            behind_offer = data[exc.args[0] :]
        except httptools.HttpParserError as exc:
            self._stop(exc)
            return
        if behind_offer is not None and not self._ignore_offer(behind_offer):
            return
        if self._progress:
            self._counted = 0
            self._uncounted = self._in_head
            if self._cycle is not None and not self._cycle.complete:
                self._since = now
                if follows and not self.is_last:
                    self._learn(data, self._cycle)
        else:
            self._counted = self._arriving
            if self._counted > self._limits.head_bytes:
                self._refuse(
                    ProxyError("invalid_request", "The head or the trailer of the request is too long."),
                )
        if self._queue:
            self._behind += len(data)
            if self._behind > self._limits.body_buffer:
                # Only now: whoever leaves is not noticed while reading rests.
                self.rest(rest=True)

    def eof_received(self) -> None:
        """The client says no more, which cannot be told from hanging up: nothing is made for nobody (decision 0010)."""
        self.release()
        if self._cycle is not None and not self._cycle.complete:
            self.abort()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Closed by either side, or lost."""
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
        self.is_last = self._draining = True
        if self._cycle is None or self._cycle.complete:
            self._close()

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
        if self._answer:
            self.release()
        if self._transport is not None:
            self._transport.write(data)

    def pour(self) -> Callable[[bytes], object] | None:
        """What hands bytes to the loop, once nothing waits before them."""
        return None if self._transport is None else self._transport.write

    def release(self) -> None:
        """Hand over what waits for the end of the turn."""
        if self._answer:
            data, self._answer = self._answer, b""
            if self._transport is not None:
                self._transport.write(data)

    def closes_after(self, cycle: Cycle) -> bool:
        """Whether the answer to *cycle* is the last on this connection."""
        return self.is_last and not self._queue and cycle is self._cycle

    def rest(self, rest: bool) -> None:
        """Stop or go on reading the socket; as long as too much waits behind the request it does not go on."""
        rest = rest or (bool(self._queue) and self._behind > self._limits.body_buffer)
        if rest is not self.is_resting and self._transport is not None and not self._transport.is_closing():
            self.is_resting = rest
            if rest:
                self._transport.pause_reading()
            else:
                self._since = self._loop.time()
                self._transport.resume_reading()

    def answered(self, cycle: Cycle, data: bytes, *, is_whole: bool) -> None:
        """*data* is the last of the answer to *cycle*; all of it (*is_whole*) waits for the end of the loop's turn."""
        if not is_whole:
            if data:
                self.write(data)
        elif self._answer:
            self._answer += data
        elif self._outbox.delays(self, self._loop):
            self._answer = data
        elif self._transport is not None:
            self._transport.write(data)
        if cycle is not self._cycle:
            return
        self._state.total_requests += 1
        if self._transport is None:
            return
        self._since = self._loop.time()
        if cycle.closes:
            self.is_last = True
            if cycle.more_body or self._queue:
                # The client was told that nothing follows, and may take whatever does for more of this answer.
                self._queue = None
                self._linger()
                return
        if not cycle.more_body:
            self._go_on()
        elif self.is_resting:
            self.rest(rest=False)  # most clients send all of a body before they read; see `Cycle.take`

    def abort(self) -> None:
        """Close at once: the answer cannot be completed."""
        if self._transport is not None:
            self._transport.abort()

    def _close(self) -> None:
        """Close, once all is sent that was made."""
        self.release()
        if self._transport is not None:
            self._transport.close()

    # for httptools

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_head = True
        self._url = b""
        self._headers = []
        self._host = self._framed = self._expects = self._offer = False

    def on_url(self, url: bytes) -> None:
        """A piece of the request target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field; a trailer's field comes here too, and is nothing to anybody."""
        if self._in_message:
            return
        name = name.lower()
        if value[-1:] <= b" ":
            value = value.rstrip(b" \t")
        if name in _TELLING:  # and what others could read otherwise is refused
            if name == b"host":
                if self._host:
                    raise _Refused("it has more than one Host")
                self._host = True
            elif name == b"expect":
                self._expects = value.lower() == b"100-continue"
            else:
                if self._framed or value.lower() != b"chunked":
                    raise _Refused("only the Transfer-Encoding 'chunked' is read")
                self._framed = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The end of a head: a request can be served."""
        parser = self._parser
        assert parser is not None
        if parser.should_upgrade():
            if parser.get_method() == b"CONNECT":
                raise _Refused("there are no tunnels here")
            self._offer = True
            return
        version = parser.get_http_version()
        if version not in _VERSIONS:
            raise _Refused("only HTTP/1.0 and HTTP/1.1 are spoken here")
        if version == "1.1" and not self._host:
            raise _Refused("it has no Host")
        if version == "1.0" and self._framed:
            raise _Refused("HTTP/1.0 has no Transfer-Encoding")
        if self._arriving > self._limits.head_bytes or self._uncounted:
            size = len(self._url) + sum(len(name) + len(value) + len(b": \r\n") for name, value in self._headers)
            if size > self._limits.head_bytes:
                raise _Refused(ProxyError("invalid_request", "The head of the request is too long."))
        if self._excess:
            self._admit()
        path, text = self._plain
        query = b""
        if path != self._url:
            if self._url[:1] == b"/" and b"?" not in self._url and b"#" not in self._url:
                path, text = self._plain = self._url, _text(self._url)
            else:
                path, query = self._split_target()
                text = _text(path)
        scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "server": self._server,
            "client": self._client,
            "scheme": self._scheme,
            "method": parser.get_method().decode("ascii"),
            "root_path": "",
            "path": text,
            "raw_path": path,
            "query_string": query,
            "headers": self._headers,
            "state": self._app_state.copy(),
        }
        self._in_head = False
        self._progress = self._in_message = True
        self.is_last = self.is_last or version == "1.0" or not parser.should_keep_alive()
        cycle = Cycle(scope, self, self._limits.body_buffer, expects=self._expects and version == "1.1")
        if self._cycle is None:
            self._start(cycle)
        else:
            if self._queue is None:
                self._queue = deque()
            self._queue.append(cycle)

    def on_body(self, body: bytes) -> None:
        """A piece of the body of the request that is being parsed."""
        self._progress = True
        cycle = self._newest() if self._queue else self._cycle
        assert cycle is not None
        cycle.take(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        if self._offer:
            return
        self._in_message = False
        self._url = b""
        cycle = self._newest() if self._queue else self._cycle
        assert cycle is not None
        cycle.more_body = cycle.expects = False
        if cycle.waiter is not None:
            cycle.wake()
        if cycle.complete and cycle is self._cycle:
            self._since = self._loop.time()
            self._go_on()

    # within

    def _ignore_offer(self, rest: bytes) -> bool:
        """Take a request that offered to go on in another protocol without that; whether it and *rest* can be read.

        So HTTP has it, and Java's own client offers h2c with every request. llhttp takes an offer for accepted, and
        would not read the body; so it is told the request once more.
        """
        while True:
            assert self._parser is not None
            head = request_head(self._parser.get_method(), self._url, self._parser.get_http_version(), self._headers)
            self._parser = httptools.HttpRequestParser(self)
            data = head + rest
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as exc:
                rest = data[exc.args[0] :]
            except httptools.HttpParserError as exc:
                self._stop(exc)
                return False
            else:
                return True

    def _stop(self, fault: httptools.HttpParserError) -> None:
        """Take no more of what cannot be read, or is not served."""
        if self.is_last and not self._in_message:
            return  # bytes after a request that said it is the last
        why = fault.__context__
        self._refuse(why.error if isinstance(why, _Refused) else _no_http(str(fault)))

    def _admit(self) -> None:
        """The first request of a connection that came when there were too many."""
        limit = self._limits.connections
        if len(self._connections) > limit:
            text = f"The proxy has {limit} connections open (server.max_connections)."
            raise _Refused(ProxyError("overloaded", text, retry_after=1))
        self._excess = False

    def _newest(self) -> Cycle:
        cycle = self._queue[-1] if self._queue else self._cycle
        assert cycle is not None
        return cycle

    def _split_target(self) -> tuple[bytes, bytes]:
        """Path and query of a request target that is more than a path."""
        try:
            url = httptools.parse_url(self._url)
        except httptools.HttpParserInvalidURLError:
            raise _Refused("the request target is neither a path nor a URL") from None
        if url.host is not None:
            # It counts, and the Host does not: the name that is checked is the one that was asked for.
            self._headers = [field for field in self._headers if field[0] != b"host"]
            self._headers.append((b"host", authority(self._url)))
        return url.path or b"/", url.query or b""

    def _learn(self, data: bytes, cycle: Cycle) -> None:
        """Know the request of *cycle* again, where it is all of *data* and nothing of it is for the connection."""
        if cycle.more_body or self._queue or self._in_head or self._expects or (unserved := cycle.unserved) is None:
            return
        scope, body = unserved
        self._heads.learn(data, body, scope["headers"], dict(scope))

    def _serve(self, headers: Headers, body: bytes, like: Scope) -> None:
        """Have the application answer a request *like* that one, as if the parser had read it."""
        scope = {**like, "headers": headers, "state": self._app_state.copy()}
        cycle = Cycle(scope, self, self._limits.body_buffer, expects=False)
        self._start(cycle)
        cycle.take(body)
        cycle.more_body = False

    def _start(self, cycle: Cycle) -> None:
        """Have the application answer *cycle*."""
        self._cycle = cycle
        cycle.task = self._loop.create_task(cycle.run(self._app, self._tasks))
        self._tasks.add(cycle.task)

    def _go_on(self) -> None:
        """The answer is out and the request all read: the next one, if any."""
        if self._queue:
            self._start(self._queue.popleft())
            return
        self._cycle = None
        self._behind = 0
        if self._refusal is not None:
            self._tell(self._refusal)
        elif self.is_last:
            if self._draining:
                self._close()
            else:
                self._linger()
        elif self.is_resting:
            self.rest(rest=False)

    def _refuse(self, error: ProxyError) -> None:
        """Read no more; tell why, once the requests before are answered."""
        self._refusal = error
        cycle = self._cycle
        in_message, self._in_message, self._in_head, self._counted = self._in_message, False, False, 0
        if in_message and cycle is not None:
            broken = self._newest()
            if self._queue:
                self._queue.pop()
            else:
                if broken.complete:
                    self._linger()
                    return
                self._cycle = None
                begun = broken.started
                broken.disconnect()
                if begun:
                    self.abort()
                    return
        if self._cycle is None:
            self._tell(error)

    def _tell(self, error: ProxyError) -> None:
        """Answer what is no request, and end."""
        assert self._parser is not None
        body = error.body()
        head, _, _ = response_head(
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
            # Where no target was read, the method is that of the request before.
            is_head = self._url != b"" and self._parser.get_method() == b"HEAD"
            self.write(head + b"\r\n\r\n" + (b"" if is_head else body))
            self._linger()

    def _linger(self) -> None:
        """Say that nothing follows, and drop what still comes, for as long as one piece of a body may take.

        A socket that is closed while the client sends is reset, and its last answer is lost with it.
        """
        transport = self._transport
        if transport is not None and not transport.is_closing():
            self._lingers = True
            self._since = self._loop.time()
            self.release()
            transport.write_eof()
            self.rest(rest=False)

    def _release_writers(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def _buffered(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def _allowed(self) -> float:
        """How long the client's present turn may take."""
        limits = self._limits
        if self._unsent:
            return limits.write
        if self._lingers:
            return limits.body
        if self._in_message:
            return math.inf if self.is_resting else limits.body
        if self._cycle is not None:
            return math.inf
        return limits.head if self._in_head or self._counted else limits.idle

    def _check(self) -> None:
        """End what has taken too long; look in again when the next limit may be over."""
        now = self._loop.time()
        # What is not congested and may yet be added to tells nothing by its size.
        unsent = self._buffered() if self.is_congested or self._cycle is None or self._cycle.complete else 0
        if unsent and not 0 < self._unsent <= unsent:
            self._since = now
        self._unsent = unsent
        allowed = self._allowed()
        if self._since + allowed > now:
            self._timer = self._loop.call_at(min(self._since + allowed, now + self._limits.shortest), self._check)
            return
        self._timer = None
        if self._unsent:
            self.abort()
        elif not self._lingers and self._owes():
            self._timer = self._loop.call_later(self._limits.shortest, self._check)
            what, setting = ("body", "body_seconds") if self._in_message else ("head", "head_seconds")
            self._refuse(
                ProxyError(
                    "request_timeout",
                    f"The {what} of the request did not come within {allowed:g} s (server.{setting} of the proxy).",
                )
            )
        else:
            self._close()

    def _owes(self) -> bool:
        """Whether the client has begun what would still be answered."""
        if self._cycle is not None and self._cycle.complete:
            return False
        return self._in_message or self._in_head or self._counted > 0


def _text(path: bytes) -> str:
    """What a *path* says, without its escapes."""
    try:
        text = path.decode("ascii")
    except UnicodeDecodeError:
        raise _Refused("the request target holds bytes that are no ASCII") from None
    return unquote_to_bytes(path).decode("utf-8", "replace") if "%" in text else text


def _no_http(why: str) -> ProxyError:
    return ProxyError("invalid_request", f"The request is not valid HTTP: {why}.")


def _address(info: object) -> tuple[str, int | None] | None:
    """A socket's address as ASGI has it; None for one without a port."""
    if isinstance(info, (tuple, list)) and len(info) >= 2:
        return str(info[0]), int(info[1])
    return None
