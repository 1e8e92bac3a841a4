"""Commands of manifests, run as processes of this machine: there is no engine here that could run containers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.cli.processes import Serving
from tests.server.transport.raw_server import soon
from tests.support.store import INSTALLED, PROGRAMS, program

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

ROOT: Final = Path(__file__).parents[2]
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", "")


def image_environment() -> dict[str, str]:
    """The settings of the proxy that its image has."""
    return dict(re.findall(r"(SVIR_\w+)=(\S+)", DOCKERFILE))


def free_port() -> int:
    """A port of the loopback address that nobody has, yet."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@asynccontextmanager
async def container(arguments: Sequence[str], environment: Mapping[str, str]) -> AsyncIterator[Serving]:
    """The image's program with *arguments*, and nothing in its environment but *environment*; in the end it is killed."""
    kept = {name: os.environ[name] for name in ("PATH", "VIRTUAL_ENV", "PYTHONPATH") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "svir_proxy", *arguments),
        cwd=ROOT,
        env={**kept, **environment},
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    serving = Serving(process, process.stderr)
    try:
        yield serving
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the session that was started above, workers included
        await soon(process.wait())
        await soon(process.stderr.read())


@asynccontextmanager
async def store(arguments: Sequence[str], folder: Path, port: int) -> AsyncIterator[None]:
    """A Valkey or Redis server, started as a manifest starts it, but in *folder* and on *port*."""
    given = [str(folder) if argument == "/data" else argument for argument in arguments]
    process = await asyncio.create_subprocess_exec(
        *(program((INSTALLED or PROGRAMS)[0]), *given, "--port", str(port), "--bind", "127.0.0.1"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        said = b""
        while b"Ready to accept connections" not in said:
            line = await soon(process.stdout.readline())
            assert line, said.decode()
            said += line
        reading = asyncio.create_task(process.stdout.read())
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await soon(process.wait())
    await soon(reading)
