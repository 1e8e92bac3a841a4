"""What the unit of systemd forbids is nothing that the proxy needs.

There is no systemd here that could run it. So its filter of system calls is made as systemd makes it, and the proxy is
started under it; and strace writes down what the proxy calls, to say which one it would be.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from svir_proxy.conform.upstream import Answer, ScriptedUpstream
from tests.cli.processes import Serving
from tests.deploy import confined
from tests.deploy.test_systemd import ROOT, TEXT
from tests.server.support import ANSWER, STREAM
from tests.server.transport.raw_server import HANG

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


def _families() -> list[str]:
    return re.findall(r"^RestrictAddressFamilies=(.+)$", TEXT, re.MULTILINE)[0].split()  # type: ignore[no-any-return]


async def _live(folder: Path, *command: str, is_child: bool) -> None:
    """Start the proxy with two workers by *command*, have it answer a stream, reload, and end.

    *is_child*: the command has the proxy as its child, instead of becoming it.
    """
    config = folder / "svir.json"
    streamed = Answer(headers={"content-type": "text/event-stream"}, pieces=[ANSWER])
    async with asyncio.timeout(5 * HANG), ScriptedUpstream({"m": streamed}) as upstream:
        document = {"backends": [{"name": "b", "base_url": upstream.base_url}], "metrics": {"port": 0}}
        config.write_text(json.dumps(document))
        process = await asyncio.create_subprocess_exec(
            *(*command, "-m", "svir_proxy", "serve", "--config", str(config), "--port", "0", "--workers", "2"),
            cwd=ROOT,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stderr is not None
        serving = Serving(process, process.stderr)
        try:
            await serving.start(2)
            proxy = _child(process.pid) if is_child else process.pid
            async with serving.client() as client:
                await client.ask(STREAM)
                assert await client.status() == 200
                await client.rest()
            os.kill(proxy, signal.SIGHUP)
            await serving.said("was reloaded")
            os.kill(proxy, signal.SIGTERM)
            assert (await serving.ended())[0] == 0
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def _child(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


@pytest.fixture
def allowed() -> frozenset[str]:
    """The system calls that the unit allows."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze: apt-get install systemd")
    calls = _allowed()
    assert {"read", "epoll_pwait", "memfd_create"} <= calls
    assert not {"mount", "ptrace", "bpf", "chown"} & calls
    return calls


async def test_it_runs_under_the_filter_of_the_unit(allowed: frozenset[str], tmp_path: Path) -> None:
    try:
        ctypes.CDLL(confined.LIBRARY)
    except OSError:
        pytest.skip(f"there is no {confined.LIBRARY}: apt-get install libseccomp2")
    families = [getattr(socket, name) for name in _families()]
    (tmp_path / "filter").write_text(json.dumps({"calls": sorted(allowed), "families": families}))
    confine = (sys.executable, confined.__file__, str(tmp_path / "filter"))
    refused = ["socket.socket(socket.AF_PACKET)", "os.chown('.', -1, -1)", "mmap.mmap(-1, 4096, prot=7)"]
    for call in refused:
        done = await asyncio.create_subprocess_exec(
            *(*confine, "-c", f"import mmap, os, socket; {call}"), stderr=asyncio.subprocess.PIPE
        )
        assert b"PermissionError" in (await done.communicate())[1], call
    await _live(tmp_path, *confine, is_child=False)


@pytest.fixture
def _strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("there is no strace: apt-get install strace")
    if subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], capture_output=True, check=False).returncode:
        pytest.skip("strace may not watch processes here")


@pytest.mark.usefixtures("_strace")
async def test_what_it_calls_is_allowed(allowed: frozenset[str], tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    await _live(tmp_path, "strace", "-f", "-qq", "-o", str(calls), sys.executable, is_child=True)
    made = CALL.findall(await asyncio.to_thread(calls.read_text, errors="replace"))
    assert {name for name, _ in made} - allowed - DONE_WITHOUT == set()
    assert {told.split(",")[0] for name, told in made if name in ("socket", "socketpair")} <= set(_families())
    # MemoryDenyWriteExecute: nothing that can be written is run, and nothing becomes executable later.
    assert not [told for name, told in made if name == "mmap" and "PROT_WRITE|PROT_EXEC" in told]
    assert not [told for name, told in made if name in ("mprotect", "pkey_mprotect", "shmat") and "EXEC" in told]
