"""uvicorn as ``serve`` runs it: one line when it accepts, a drain on SIGTERM, and status 0 after it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, cast

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from svir_proxy.cli import FAILED, OK
from svir_proxy.cli.configuration import url
from svir_proxy.listener import ClientConnection, ClientLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.types import ASGIApp

    from svir_proxy.settings import ServerSettings, Settings

BACKLOG: Final = 4096
"""Connections the kernel holds before they are accepted: a burst of clients must not see a refusal."""


class Server(uvicorn.Server):
    """Says when it accepts, and ends as an orderly exit rather than by the signal that asked for it."""

    announcement: str = ""
    when_ready: Callable[[], None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets)
        if self.started:
            _announce(self.announcement)
            if self.when_ready is not None:
                self.when_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals as requests to drain; uvicorn would raise them again afterwards."""
        with super().capture_signals():
            try:
                yield
            finally:
                self._captured_signals.clear()


class Supervisor(Multiprocess):
    """Worker processes on one socket; says once that they accept."""

    announcement: str = ""
    failed: bool = False

    def keep_subprocess_alive(self) -> None:
        """Called twice a second."""
        super().keep_subprocess_alive()
        if self.announcement and any(process.is_ready() for process in self.processes):
            _announce(self.announcement)
            self.announcement = ""
        self.failed = any(process.exitcode == STARTUP_FAILURE for process in self.processes)


def serve(app: ASGIApp, settings: Settings) -> int:
    """Serve *app* in this process until a signal; the result is the process's status."""
    listener = listen(settings)
    return FAILED if listener is None else serve_on(listener, app, settings)


def serve_on(
    listener: socket.socket, app: ASGIApp, settings: Settings, when_ready: Callable[[], None] | None = None
) -> int:
    """As `serve`, on a socket that listens already; calls *when_ready* once requests are accepted."""
    server = Server(_config(app, settings))
    server.announcement = f"listening on {address(settings, listener)}"
    server.when_ready = when_ready
    try:
        server.run([listener])
    except SystemExit:
        # The lifespan failed; uvicorn has logged why.
        return FAILED
    return OK


def serve_with_workers(factory: str, settings: Settings) -> int:
    """Serve the application that *factory* (``module:function``) makes in each worker, until a signal."""
    listener = listen(settings)
    if listener is None:
        return FAILED
    supervisor = Supervisor(_config(factory, settings, factory=True), [listener])
    supervisor.announcement = f"listening on {address(settings, listener)}"
    supervisor.run()
    return FAILED if supervisor.failed else OK


def _config(app: ASGIApp | str, settings: Settings, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        workers=settings.server.workers,
        loop="uvloop" if find_spec("uvloop") else "asyncio",
        http=cast("type[asyncio.Protocol]", partial(ClientConnection, limits=_client_limits(settings.server))),
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
        **more,
    )


def _client_limits(server: ServerSettings) -> ClientLimits:
    return ClientLimits(
        connections=server.max_connections,
        idle=server.idle_seconds,
        head=server.head_seconds,
        body=server.body_seconds,
        write=server.write_seconds,
    )


def listen(settings: Settings) -> socket.socket | None:
    """A listening socket; None, and one line that says why, where there can be none."""
    host, port = settings.server.host, settings.server.port
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
            f"cannot listen on {url(host, port)}: {reason.lower()}; choose another with --host or --port",
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


def _announce(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
