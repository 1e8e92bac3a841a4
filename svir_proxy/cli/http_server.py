"""uvicorn as ``serve`` runs it: one line when it accepts, a drain on SIGTERM, and status 0 after it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from concurrent.futures import Future
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import uvicorn
from uvicorn.server import ServerState

from svir_proxy.cli import FAILED, OK
from svir_proxy.cli.configuration import url
from svir_proxy.cli.descriptors import make_room, share_out
from svir_proxy.cli.reload import Reloader, Terminal, Watch
from svir_proxy.listener import ClientConnection, ClientLimits
from svir_proxy.outbox import Outbox
from svir_proxy.server.logs import flush_logs, set_up_logging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from starlette.types import Receive, Scope, Send

    from svir_proxy.cli.reload import Source
    from svir_proxy.settings import ServerSettings, Settings

BACKLOG: Final = 4096
"""Connections the kernel holds before they are accepted: a burst of clients must not see a refusal."""
_YOUNG: Final = 10_000
"""Objects that come to be before the collector looks at them."""
_TAKING: Final = 30.0
"""Seconds that a busy loop may take before it serves new settings."""


class Application(Protocol):
    """An ASGI application that can serve other settings while it runs."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope."""

    async def apart(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope that came to the address of the metrics, where they have one."""

    def reload(self, settings: Settings) -> None:
        """Serve *settings* from the next request on; raises where they cannot be served. Called in the loop."""

    def drain(self) -> None:
        """The process is about to end, once what runs is over: end what would go on for ever. Called in the loop."""

    def settle(self) -> None:
        """The process ends: leave nothing undone of requests that are over. Called in the loop."""


class Server(uvicorn.Server):
    """Serves *app*. Says when it accepts, and ends as an orderly exit rather than by the signal that asked for it."""

    announcements: Iterable[str] = ()
    when_ready: Callable[[], None] | None = None

    def __init__(self, app: Application, settings: Settings) -> None:
        super().__init__(config_for(app, settings))
        self._application = app
        self._settings = settings
        self._apart = ServerState()  # of its own: a crowd of clients does not keep Prometheus out
        self._waiting: Settings | None = None  # what is to be served from the next turn of the loop on
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        own, apart = (None, []) if sockets is None else (sockets[:1], sockets[1:])
        await super().startup(own)
        for listener in apart:
            await self._serve_apart(listener)
        if self.started:
            for line in self.announcements:
                announce(line)
            self._loop = asyncio.get_running_loop()
            self._take(Future())
            # What is loaded by now stays as long as the process does, and is most of what the collector would look at.
            gc.collect()
            gc.freeze()
            # A request leaves it nothing to collect: all that it looked at so often were requests that run.
            gc.set_threshold(_YOUNG)
            if self.when_ready is not None:
                self.when_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Have the connections end, then the application."""
        self._application.drain()
        for connection in list(self._apart.connections):
            connection.shutdown()
        try:
            await super().shutdown(sockets)
        finally:
            self._application.settle()  # a second signal ends it without the application's own shutdown

    async def _serve_apart(self, listener: socket.socket) -> None:
        """Serve what the application has apart on *listener*."""
        config = config_for(self._application.apart, self._settings)
        config.load()
        make = partial(
            cast("Callable[..., asyncio.Protocol]", config.http_protocol_class),
            config=config,
            server_state=self._apart,
            app_state=self.lifespan.state,
        )
        self.servers.append(await asyncio.get_running_loop().create_server(make, sock=listener))

    def reload(self, settings: Settings) -> None:
        """Serve *settings* from the next request on; raises where they cannot be. To be called in another thread."""
        self._waiting = settings
        if self._loop is not None:
            taken: Future[None] = Future()
            self._loop.call_soon_threadsafe(self._take, taken)
            try:
                taken.result(_TAKING)
            except TimeoutError:
                self._waiting = None  # else it would be taken after it was told to be refused
                raise

    def _take(self, taken: Future[None]) -> None:
        settings, self._waiting = self._waiting, None
        if settings is None:
            taken.set_result(None)
            return
        try:
            self._application.reload(settings)
        except Exception as exc:  # noqa: BLE001 - whoever asked is told
            taken.set_exception(exc)
            return
        fresh = config_for(self._application, settings)
        self.config.http_protocol_class = cast("type[asyncio.Protocol]", fresh.http)
        self.config.timeout_graceful_shutdown = fresh.timeout_graceful_shutdown
        set_up_logging(settings.logging)
        taken.set_result(None)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals as requests to drain; uvicorn would raise them again afterwards."""
        with super().capture_signals():
            try:
                yield
            finally:
                self._captured_signals.clear()


def serve(app: Application, settings: Settings, source: Source | None = None) -> int:
    """Serve *app* in this process until a signal; the result is the process's status. *source*: what to reload from."""
    listeners = listen_all(settings)
    if listeners is None:
        return FAILED
    make_room(settings.server.max_connections)
    server = Server(app, settings)
    if source is None:
        return _run(server, listeners, settings)
    watch = Watch(Reloader(source, settings, server.reload))
    terminal = Terminal()

    def hang_up(*_: object) -> None:
        if terminal.is_gone:
            signal.raise_signal(signal.SIGTERM)
        else:
            watch.ask()

    signal.signal(signal.SIGHUP, hang_up)
    try:
        return _run(server, listeners, settings, watch.start)
    finally:
        watch.stop()


def serve_on(
    listener: socket.socket, app: Application, settings: Settings, when_ready: Callable[[], None] | None = None
) -> int:
    """As `serve`, on a socket that listens already; calls *when_ready* once requests are accepted."""
    return _run(Server(app, settings), [listener], settings, when_ready)


def _run(
    server: Server, listeners: list[socket.socket], settings: Settings, when_ready: Callable[[], None] | None = None
) -> int:
    server.announcements = announcements(settings, listeners)
    server.when_ready = when_ready
    try:
        server.run(listeners)
    except SystemExit:
        # The lifespan failed; uvicorn has logged why.
        return FAILED
    return OK


def config_for(app: Callable[..., Any], settings: Settings) -> uvicorn.Config:
    """The configuration of uvicorn."""
    connection = partial(ClientConnection, limits=_client_limits(settings.server), outbox=Outbox())
    return uvicorn.Config(
        app,
        workers=settings.server.workers,
        loop="uvloop" if find_spec("uvloop") else "asyncio",
        http=cast("type[asyncio.Protocol]", connection),
        ws="none",
        lifespan="on",
        interface="asgi3",
        backlog=BACKLOG,
        timeout_graceful_shutdown=settings.server.drain_seconds,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        log_config=None,
        log_level="warning",
    )


def _client_limits(server: ServerSettings) -> ClientLimits:
    served, told = share_out(server.max_connections)
    return ClientLimits(
        connections=served,
        heard=served + told,
        idle=server.idle_seconds,
        head=server.head_seconds,
        body=server.body_seconds,
        write=server.write_seconds,
    )


def listen_all(settings: Settings) -> list[socket.socket] | None:
    """The listening sockets: the proxy's own, then that of the metrics where they have one; None as `listen`."""
    own = listen(settings)
    if own is None or not settings.metrics_are_apart:
        return None if own is None else [own]
    apart = _listen(settings.metrics.host, settings.metrics.port or 0, "metrics.host or metrics.port")
    if apart is None:
        own.close()
        return None
    return [own, apart]


def listen(settings: Settings) -> socket.socket | None:
    """A listening socket; None, and one line that says why, where there can be none."""
    return _listen(settings.server.host, settings.server.port, "--host or --port")


def _listen(host: str, port: int, instead: str) -> socket.socket | None:
    try:
        listener = socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=BACKLOG,
            dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
        )
    except OSError as exc:
        # create_server's own message repeats the address; a name that is not found has no errno of the system's.
        by_system = exc.errno is not None and not isinstance(exc, socket.gaierror)
        reason = os.strerror(exc.errno or 0) if by_system else exc.strerror or str(exc)
        print(
            f"cannot listen on {url(host, port)}: {reason.lower()}; choose another with {instead}",
            file=sys.stderr,
        )
        return None
    # Inherited by accepted connections: asyncio sets it only on sockets that name their protocol, and create_server's
    # do not; without it each event of a stream waits 40 ms for an acknowledgement of the one before.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def address(settings: Settings, listener: socket.socket) -> str:
    """The URL of *listener*, with the host as it is configured and the port as it is."""
    return url(settings.server.host, listener.getsockname()[1])


def announcements(settings: Settings, listeners: Sequence[socket.socket]) -> list[str]:
    """What is said once *listeners*, as `listen_all` made them, accept."""
    lines = [f"listening on {address(settings, listeners[0])}"]
    return lines + [
        f"metrics on {url(settings.metrics.host, listener.getsockname()[1])}/metrics" for listener in listeners[1:]
    ]


def announce(line: str) -> None:
    """Say *line* at once, after what was logged before."""
    flush_logs()
    with contextlib.suppress(OSError):  # a terminal that was closed in this moment: its signal says so
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
