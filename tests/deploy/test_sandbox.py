"""What the unit of systemd forbids is nothing that the proxy needs: strace writes down its system calls, to compare."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from svir_proxy.conform.upstream import Answer, ScriptedUpstream
from tests.cli.processes import Serving
from tests.deploy.test_systemd import ROOT, TEXT
from tests.server.support import ANSWER, STREAM
from tests.server.transport.raw_server import HANG, soon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CALL: Final = re.compile(r"^\d+ +(\w+)\((.*)$", re.MULTILINE)
"""A line of strace's: process, call, arguments and result."""
DONE_WITHOUT: Final = {"io_uring_setup", "io_uring_enter", "io_uring_register"}
"""What libuv tries once, and goes on without."""


@cache
def _members(name: str) -> frozenset[str]:
    """The calls of one of systemd's sets, such as ``@system-service``."""
    command = ["systemd-analyze", "syscall-filter", "--no-pager", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    members = {line.strip() for line in done.stdout.splitlines()[1:] if line.startswith(" ")}
    calls = {member for member in members if re.fullmatch(r"\w+", member)}
    return frozenset(calls.union(*(_members(member) for member in members if member.startswith("@"))))


def _allowed() -> frozenset[str]:
    allowed = _members("@default")
    for value in re.findall(r"^SystemCallFilter=(.+)$", TEXT, re.MULTILINE):
        for name in value.removeprefix("~").split():
            allowed = allowed - _members(name) if value.startswith("~") else allowed | _members(name)
    return allowed


@asynccontextmanager
async def _watched(config: Path, calls: Path) -> AsyncIterator[tuple[Serving, int]]:
    """The proxy with two workers, and its process id; its system calls go to the file *calls*."""
    program = [sys.executable, "-m", "svir_proxy", "serve", "--config", str(config), "--port", "0", "--workers", "2"]
    process = await asyncio.create_subprocess_exec(
        *("strace", "-f", "-qq", "-o", str(calls), *program),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    serving = Serving(process, process.stderr)
    try:
        await serving.start(2)
        yield serving, _child(process.pid)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _child(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


@pytest.fixture
def _programs() -> None:
    for program, package in {"strace": "strace", "systemd-analyze": "systemd"}.items():
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}: apt-get install {package}")
    if subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], capture_output=True, check=False).returncode:
        pytest.skip("strace may not watch processes here")


@pytest.mark.usefixtures("_programs")
async def test_what_is_forbidden_is_not_needed(tmp_path: Path) -> None:
    calls, config = tmp_path / "calls", tmp_path / "svir.json"
    streamed = Answer(headers={"content-type": "text/event-stream"}, pieces=[ANSWER])
    async with ScriptedUpstream({"m": streamed}) as upstream:
        document = {"backends": [{"name": "b", "base_url": upstream.base_url}], "metrics": {"port": 0}}
        config.write_text(json.dumps(document))
        async with asyncio.timeout(5 * HANG), _watched(config, calls) as (serving, child):
            async with serving.client() as client:
                await client.ask(STREAM)
                assert await client.status() == 200
                await client.rest()
            os.kill(child, signal.SIGHUP)
            await serving.said("was reloaded")
            os.kill(child, signal.SIGTERM)
            assert (await soon(serving.process.wait())) == 0
    allowed = _allowed()
    assert {"read", "epoll_pwait", "memfd_create"} <= allowed
    assert not {"mount", "ptrace", "bpf", "chown"} & allowed
    made = CALL.findall(await asyncio.to_thread(calls.read_text, errors="replace"))
    assert {name for name, _ in made} - allowed - DONE_WITHOUT == set()

    families = re.findall(r"^RestrictAddressFamilies=(.+)$", TEXT, re.MULTILINE)[0].split()
    assert {told.split(",")[0] for name, told in made if name in ("socket", "socketpair")} <= set(families)

    # MemoryDenyWriteExecute: nothing that can be written is run, and nothing becomes executable later.
    assert not [told for name, told in made if name == "mmap" and "PROT_WRITE|PROT_EXEC" in told]
    assert not [told for name, told in made if name in ("mprotect", "pkey_mprotect", "shmat") and "EXEC" in told]
