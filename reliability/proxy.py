"""The proxy as ``svir-proxy serve`` runs it, in a process of its own, and what the system says that it holds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

ROOT: Final = Path(__file__).parents[1]
_LISTENING: Final = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")
_PATIENCE: Final = 30.0
"""Seconds that the process may take to start, to end, to answer."""
_TICK: Final = 0.02
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds: resident memory in MiB, open file descriptors, and the CPU seconds it has used."""

    mib: float
    fds: int
    cpu: float


@dataclass(frozen=True, slots=True)
class Inside:
    """What can only be told from within.

    Attributes:
        tasks: Of asyncio.
        mine: Objects that the collector knows, of each of the proxy's own classes; empty where they were not counted.
        all: All objects that the collector knows; 0 likewise.
    """

    tasks: int
    mine: Mapping[str, int] = field(default_factory=dict)
    all: int = 0


class ProxyProcess:
    """``async with ProxyProcess(settings, folder) as proxy``: runs from a configuration that is written to *folder*.

    *windowed*: with `reliability.window` in the process, for `look_inside`. *descriptors*: as many as it may have.
    RuntimeError where it does not start.
    """

    port: int
    pid: int

    def __init__(
        self, settings: Mapping[str, Any], folder: Path, *, windowed: bool = False, descriptors: int | None = None
    ) -> None:
        self.config = folder / "svir.yaml"
        self._log = folder / "log"
        self._window = folder / "window" if windowed else None
        self._limit = ("sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh") if descriptors is not None else ()
        self.write(settings)

    def write(self, settings: Mapping[str, Any] | str) -> None:
        """Have the configuration say *settings*; they count when the process reads them."""
        self.config.write_text(settings if isinstance(settings, str) else json.dumps(settings))

    async def __aenter__(self) -> Self:
        module = ["reliability.window", str(self._window)] if self._window else ["svir_proxy"]
        # What is set for this shell's use of the proxy is not for this one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SVIR_")}
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._limit, sys.executable, "-m", *module, "serve", "--config", str(self.config), "--port", "0",
                cwd=ROOT, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self.pid = self._process.pid
        try:
            await wait_for(lambda: self._process.returncode is not None or _LISTENING.search(self.log) is not None)
        except BaseException:
            await self._stop()
            raise
        found = _LISTENING.search(self.log)
        if found is None:
            raise RuntimeError(f"the proxy did not start:\n{self.log[-2000:]}")
        self.port = int(found[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    @property
    def log(self) -> str:
        """What it logged so far."""
        return self._log.read_text(errors="replace")

    @property
    def log_size(self) -> int:
        """How long the log is, in bytes."""
        return self._log.stat().st_size

    def log_from(self, start: int) -> str:
        """What it logged from the byte *start* on."""
        with self._log.open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")

    def holds(self) -> Held:
        """What it holds now."""
        process = Path(f"/proc/{self.pid}")
        pages = int((process / "statm").read_text().split()[1])
        times = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
        fds = sum(1 for _ in (process / "fd").iterdir())
        return Held(pages * resource.getpagesize() / 2**20, fds, sum(map(int, times)) / _TICKS)

    async def look_inside(self, *, count: bool = False) -> Inside:
        """What it says of itself; *count*: its objects too, once garbage is collected."""
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_unix_connection(self._window)
            writer.write(b"+" if count else b"-")
            said = await reader.read()
            writer.close()
            await writer.wait_closed()
        return Inside(**json.loads(said))

    def reload(self) -> None:
        """Have it read its configuration anew, as SIGHUP does."""
        self._process.send_signal(signal.SIGHUP)

    async def _stop(self) -> None:
        for stop in (self._process.terminate, self._process.kill):
            with contextlib.suppress(ProcessLookupError):
                stop()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await self._process.wait()
                    return


async def wait_for(condition: Callable[[], bool], seconds: float = _PATIENCE) -> None:
    """Look every now and then until *condition* holds; TimeoutError after *seconds*."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - no event is there to be awaited
            await asyncio.sleep(_TICK)
