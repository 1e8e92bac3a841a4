"""A real ``svir-proxy serve`` in processes of its own: what it says, and signals to it and to its workers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.server.support import Client
from tests.server.transport.raw_server import soon

_ROOT: Final = Path(__file__).parents[2]


class Serving:
    """The process that was started, and its log."""

    def __init__(self, process: asyncio.subprocess.Process, log: asyncio.StreamReader) -> None:
        self.process = process
        self.workers: list[int] = []
        """Process ids of the workers, those that came last at the end; one process alone has none."""
        self.base_url = ""
        self.lines: list[str] = []
        """All that it has said so far, as far as `said` has read it."""
        self._log = log

    async def said(self, pattern: str) -> re.Match[str]:
        """The next line that *pattern* is found in; those before it are passed over."""
        while True:
            line = (await soon(self._log.readline())).decode()
            assert line, f"it ended without saying {pattern!r}:\n{''.join(self.lines)}"
            self.lines.append(line)
            if found := re.search(r"worker (\d+) serves", line):
                self.workers.append(int(found[1]))
            if found := re.search(pattern, line):
                return found

    async def start(self, workers: int) -> None:
        """Wait until all of it serves."""
        self.base_url = (await self.said(r"listening on (http://\S+)"))[1]
        while workers > 1 and len(self.workers) < workers:
            await self.said(r"worker \d+ serves")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self) -> tuple[int, str]:
        """Status, and what it said last."""
        rest = (await soon(self._log.read())).decode()
        return await soon(self.process.wait()), rest

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A connection to it."""
        client = await Client.connect(self.base_url)
        try:
            yield client
        finally:
            client.leave()
            with contextlib.suppress(OSError):
                await client.close()

    async def accepts(self) -> bool:
        """Whether a connection to it can be made."""
        try:
            async with self.client():
                return True
        except ConnectionError:
            return False

    async def refuses(self) -> None:
        """Wait until no connection can be made."""
        async with asyncio.timeout(20):
            while await self.accepts():
                pass


@asynccontextmanager
async def serve(config: Path, workers: int = 1, terminal: int | None = None) -> AsyncIterator[Serving]:
    """The proxy with *config*. *terminal*: the descriptor that is its terminal and its stderr; then it says nothing."""
    command = [sys.executable, "-m", "svir_proxy", "serve", "--config", str(config), "--port", "0"]
    command += ["--workers", str(workers)]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=_ROOT, stderr=asyncio.subprocess.PIPE if terminal is None else terminal, start_new_session=True
    )
    serving = Serving(process, process.stderr or asyncio.StreamReader())
    try:
        if terminal is None:
            await serving.start(workers)
        yield serving
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the session that was started above, workers included
        await soon(process.wait())
        if process.stderr is not None:
            await soon(process.stderr.read())


async def stop(process: int) -> None:
    """Have a process stand still until SIGCONT; returns when it does."""
    os.kill(process, signal.SIGSTOP)
    async with asyncio.timeout(20):
        while True:
            state = await asyncio.to_thread(
                subprocess.run, ["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=True
            )
            if state.stdout.startswith("T"):
                return
