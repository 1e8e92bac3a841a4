"""Processes that a benchmark starts: compiled once, ready when they say so, gone when the run is."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.scenarios import Scenario

_SOURCES: Final = Path(__file__).parents[1] / "native"
_BUILD: Final = Path(__file__).parents[1] / "build"
_FLAGS: Final = ("-O2", "-Wall", "-Wextra")
_FILES: Final = 65_536
_STOP_SECONDS: Final = 5.0


class BenchmarkError(Exception):
    """The benchmark cannot go on; the text says why and what helps."""


def build(name: str) -> Path:
    """The program of that name, compiled where it is missing or older than its sources."""
    program = _BUILD / name
    sources = [_SOURCES / f"{name}.c", _SOURCES / "common.h"]
    if program.exists() and all(program.stat().st_mtime > source.stat().st_mtime for source in sources):
        return program
    compiler = shutil.which("cc")
    if compiler is None:
        raise BenchmarkError("no C compiler: apt-get install gcc libc6-dev")
    _BUILD.mkdir(exist_ok=True)
    done = subprocess.run([compiler, *_FLAGS, "-o", program, sources[0]], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchmarkError(f"{sources[0].name} does not compile (Linux only, for epoll and /proc):\n{done.stderr}")
    return program


def raise_file_limit() -> None:
    """Let this process and those it starts open the files that a thousand streams take."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Running:
    """A process with its children, in a session of its own; *log* takes what it prints."""

    def __init__(self, argv: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> None:
        # What is set for this shell's use of the proxy is not what is measured.
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("SVIR_") and "proxy" not in k.lower()}
        self._log = log
        self._started = time.monotonic()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                argv,
                env=inherited | dict(env or {}),
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """What it printed so far."""
        return self._log.read_text(errors="replace")

    def wait_for_line(self, text: str, seconds: float) -> str:
        """The first line with *text* that it prints."""
        while (line := next((line for line in self.output.splitlines() if text in line), None)) is None:
            self._wait_a_moment(seconds)
        return line

    def wait_for_port(self, port: int, seconds: float) -> None:
        """Wait until it accepts connections."""
        while not _accepts(port):
            self._wait_a_moment(seconds)

    def wait_for_answer(self, port: int, headers: Mapping[str, str], model: str, seconds: float) -> None:
        """Wait until a chat completion succeeds."""
        while not _answers(port, headers, model):
            self._wait_a_moment(seconds)

    @property
    def age(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self._started

    def pids(self) -> list[int]:
        """The process and all it has started."""
        children: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):  # ended meanwhile
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                    children.setdefault(parent, []).append(int(entry.name))
        found = [self._process.pid]
        for pid in found:
            found += children.get(pid, [])
        return found

    def rss_mib(self) -> float:
        """Resident memory of all its processes."""
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids())
        return pages * resource.getpagesize() / 2**20

    def stop(self) -> None:
        """End it, its children too."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)

    def _wait_a_moment(self, seconds: float) -> None:
        if self._process.poll() is not None:
            raise BenchmarkError(f"it ended with status {self._process.returncode}:\n{self.output[-2000:]}")
        if self.age > seconds:
            raise BenchmarkError(f"it was not ready within {seconds:g} s:\n{self.output[-2000:]}")
        time.sleep(0.005)


def _accepts(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _answers(port: int, headers: Mapping[str, str], model: str) -> bool:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json", **headers},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def generate_load(
    port: int, scenario: Scenario, headers: Mapping[str, str], pids: Sequence[int], seconds: float = 60.0
) -> dict[str, Any]:
    """Run one load against *port*, watching *pids*; what the load generator prints."""
    command: list[str | Path] = [build("loadgen"), "--port", str(port), "--seconds", str(seconds)]
    command += scenario.arguments()
    for name, value in headers.items():
        command += ["--header", f"{name}: {value}"]
    if pids:
        command += ["--pids", ",".join(map(str, pids))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=2 * seconds)
    except subprocess.SubprocessError as exc:
        raise BenchmarkError(f"the load generator failed: {exc}") from exc
    result: dict[str, Any] = json.loads(done.stdout)
    return result
