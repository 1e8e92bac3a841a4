"""Worker processes on one socket, and the process over them: it starts them, replaces them, and tells them what is new.

The configuration is read in one place, here. Workers get it checked, when they start and whenever it changes: all have
the same one, also a worker that takes another's place while the file on disk is wrong.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from typing import TYPE_CHECKING, Final, cast

from uvicorn.supervisors.multiprocess import Multiprocess, Process

from svir_proxy.cli import FAILED, OK
from svir_proxy.cli.descriptors import make_room
from svir_proxy.cli.http_server import Server, announce, announcements, config_for, listen_all
from svir_proxy.cli.reload import Reloader, Terminal
from svir_proxy.server.logs import set_up_logging
from svir_proxy.server.metrics.board import SLOTS, Board
from svir_proxy.server.metrics.metrics import Place
from svir_proxy.settings import Settings

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from svir_proxy.cli.http_server import Application
    from svir_proxy.cli.reload import Source

_LOGGER: Final = logging.getLogger("svir_proxy")
_GLANCE: Final = 0.05
"""Seconds that the supervisor waits for an answer it can have later."""
_WAIT: Final = 5.0
"""Seconds that it waits for a worker to serve new settings."""
_PATIENCE: Final = 60
"""Looks in vain, two a second, after which a worker is replaced. Not seconds: a machine can stand still."""
_MARGIN: Final = 5.0
"""Seconds beyond server.drain_seconds that a worker may take to end."""


class Worker(Process):
    """One process that serves what *make* makes of *settings*. Made by the supervisor; runs `target`."""

    def __init__(
        self,
        settings: Settings,
        sockets: list[socket.socket],
        make: Callable[[Settings, Place | None], Application],
        place: Place | None = None,
    ) -> None:
        self._settings = settings
        self._make = make
        self._place = place
        self._asked = False
        self._in_vain = 0
        self.serves = False
        """Whether it was seen to serve."""
        super().__init__(config_for(make, settings), sockets)

    # in the supervisor

    def look(self, settings: Settings) -> bool:
        """Whether it lives and answers; *settings* are what it is to serve. Does not wait for it."""
        if not self.process.is_alive():
            return False
        try:
            if not self._asked:
                self.parent_conn.send(None if settings is self._settings else settings)
                self._asked, self._settings = True, settings
            self._in_vain += 1
            self._hear(_GLANCE)
        except (OSError, EOFError):
            return False
        return self._in_vain < _PATIENCE

    def take(self, settings: Settings) -> None:
        """Have it serve *settings*, and wait until it does. One that does not answer has them at the next `look`."""
        try:
            self._hear(_WAIT)
            self.look(settings)
            self._hear(_WAIT)
        except (OSError, EOFError):
            return

    def _hear(self, seconds: float) -> None:
        if self._asked and self.parent_conn.poll(seconds):
            self.serves = self.parent_conn.recv()
            self._asked, self._in_vain = False, 0

    # in the worker

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the supervisor's; a terminal sends it to all
        self.parent_conn.close()  # so that the end of the supervisor is seen
        self._server = Server(self._make(self._settings, self._place), self._settings)
        super().target(sockets)

    def always_pong(self) -> None:
        """Answer the supervisor; without one there is nobody to serve for."""
        try:
            super().always_pong()
        except (OSError, EOFError):
            os.kill(os.getpid(), signal.SIGTERM)

    def pong(self) -> None:
        """Answer one message: settings are served before, anything else asks for the state only."""
        message = self.child_conn.recv()
        server = cast("Server", self.server)
        if isinstance(message, Settings):
            try:
                server.reload(message)
            except Exception:
                _LOGGER.exception("the configuration cannot be served, the one before stays")
        self.child_conn.send(server.started)


class Supervisor(Multiprocess):
    """Runs as many workers as *settings* say, until a signal."""

    def __init__(
        self,
        settings: Settings,
        listeners: list[socket.socket],
        make: Callable[[Settings, Place | None], Application],
        source: Source | None,
    ) -> None:
        super().__init__(config_for(make, settings), listeners)
        self._settings = settings
        self._make = make
        self._board = Board()
        self._announcements = announcements(settings, listeners)
        self._ready: set[int | None] = set()
        self._reloader = None if source is None else Reloader(source, settings, self._serve)
        self._terminal = Terminal()
        self.failed = False
        """Whether it ended because no worker could start."""

    def init_processes(self) -> None:
        """Start the workers."""
        self.processes = [self._start(index) for index in range(self.processes_num)]

    def keep_subprocess_alive(self) -> None:
        """Called twice a second: replace what has died, and look whether the configuration has changed."""
        for index, process in enumerate(self.processes):
            worker = cast("Worker", process)
            if not worker.look(self._settings):
                self._replace(index, worker)
            elif worker.serves and worker.pid not in self._ready:
                self._welcome(worker)
            if self.should_exit.is_set():
                return
        if self._reloader is not None:
            self._reloader.poll()

    def handle_hup(self) -> None:
        """Reload the configuration; end, where it is the terminal that is gone."""
        if self._terminal.is_gone:
            self.should_exit.set()
        elif self._reloader is not None:
            self._reloader.reload()

    def handle_ttin(self) -> None:
        """One worker more."""
        self.processes_num += 1
        self.processes.append(self._start(len(self.processes)))

    def terminate_all(self) -> None:
        """Have the workers drain. Nobody may connect any more: no worker would answer."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()

    def join_all(self) -> None:
        """Wait until they have, within a limit."""
        limit = time.monotonic() + self._settings.server.drain_seconds + _MARGIN
        for worker in self.processes:
            worker.process.join(max(1.0, limit - time.monotonic()))
            if worker.process.is_alive():
                _LOGGER.error("worker %d does not end and is killed", worker.pid)
                worker.process.kill()
                worker.process.join()

    def _start(self, index: int) -> Worker:
        place = Place(self._board, index) if index < SLOTS else None
        worker = Worker(self._settings, self.sockets, self._make, place)
        worker.start()
        return worker

    def _replace(self, index: int, worker: Worker) -> None:
        worker.kill()
        worker.join()
        if not self._ready and (worker.exitcode or 0) > 0:
            # It could not start, and has logged why: every other one would end in the same way.
            self.failed = True
            self.should_exit.set()
            return
        self.processes[index] = other = self._start(index)
        _LOGGER.warning("worker %d ended (%s); %d takes its place", worker.pid, _how(worker.exitcode), other.pid)

    def _welcome(self, worker: Worker) -> None:
        if not self._ready:
            for line in self._announcements:
                announce(line)
        self._ready.add(worker.pid)
        _LOGGER.info("worker %d serves", worker.pid)

    def _serve(self, settings: Settings) -> None:
        self._settings = settings
        for worker in cast("list[Worker]", self.processes):
            if worker.serves:
                worker.take(settings)
        set_up_logging(settings.logging)


def serve_with_workers(
    make: Callable[[Settings, Place | None], Application], settings: Settings, source: Source | None = None
) -> int:
    """Serve the application that *make* makes in each worker, until a signal; the result is the process's status.

    *make* is a function that a worker can import; it gets the worker's place among the others, too. *source*: what to
    reload from.
    """
    listeners = listen_all(settings)
    if listeners is None:
        return FAILED
    set_up_logging(settings.logging)
    make_room(settings.server.max_connections)
    supervisor = Supervisor(settings, listeners, make, source)
    supervisor.run()
    return FAILED if supervisor.failed else OK


def _how(status: int | None) -> str:
    """How a process ended, in words."""
    if status is None or status >= 0:
        return f"status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:  # one of the nameless
        return f"signal {-status}"
