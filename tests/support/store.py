"""A real Redis or Valkey server on a free loopback port, which a test can stop, start anew, and have stand still."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from tests.server.transport.raw_server import soon

PROGRAMS: Final = ("redis-server", "valkey-server")
INSTALLED: Final = tuple(name for name in PROGRAMS if shutil.which(name))
"""Those of them that are here; a test that needs any takes the first."""


def program(name: str) -> str:
    """Where the program *name* is; skips the test where it is not."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed: apt-get install {name}")
    return path


class Store:
    """The server. Everything is in its memory: what it had counted is gone when it stops."""

    def __init__(self, path: str) -> None:
        self._path = path
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port: int = sock.getsockname()[1]
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    async def start(self) -> None:
        """Start it, and wait until it serves."""
        options = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        self._process = process = await asyncio.create_subprocess_exec(
            self._path, *options, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        said = b""
        while b"Ready to accept connections" not in said:
            said = await soon(process.stdout.readline())
            assert said, f"{self._path} did not start"

    def stand_still(self) -> None:
        """Keep its connections, and answer nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def stop(self) -> None:
        """End it as a crash does."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await soon(process.communicate())


@asynccontextmanager
async def running_store(name: str = (INSTALLED or PROGRAMS)[0]) -> AsyncIterator[Store]:
    """A server that runs."""
    store = Store(program(name))
    await store.start()
    try:
        yield store
    finally:
        await store.stop()
