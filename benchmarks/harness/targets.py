"""What is measured: the upstream itself, nginx, the proxy with two profiles, and other routers where installed."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.processes import BenchmarkError, Running, free_port

DIRECT: Final = "direct"
REFERENCE: Final = "nginx"
SVIR: Final = {"svir": "vllm", "svir_openai": "openai"}
"""The proxy's targets and their profiles: vllm asks the upstream for a stream always, openai as the client does."""
PROBE: Final = "m-1-0-vllm"

_ROOT: Final = Path(__file__).parents[2]
_START_SECONDS: Final = 20.0
_PEER_START_SECONDS: Final = 60.0

_NGINX: Final = """\
daemon off; worker_processes 1; pid nginx.pid; error_log stderr warn;
events { worker_connections 8192; }
http {
  access_log off; tcp_nodelay on; keepalive_requests 1000000; keepalive_timeout 300s;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
  scgi_temp_path scgi; client_max_body_size 64m; client_body_buffer_size 1m;
  upstream upstream { server 127.0.0.1:%(upstream)d; keepalive 2048; keepalive_requests 1000000; }
  server {
    listen 127.0.0.1:%(port)d backlog=4096;
    location / {
      proxy_pass http://upstream; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_read_timeout 600s;
    }
  }
}
"""

_SVIR: Final = """\
server: {host: 127.0.0.1, port: %(port)d}
backends:
  - {name: scripted, base_url: "http://127.0.0.1:%(upstream)d/v1", profile: %(profile)s}
"""

_ROUTER: Final = (
    "{program} --host 127.0.0.1 --port {port} --worker-urls http://127.0.0.1:{upstream} --policy round_robin"
    " --log-level error --prometheus-port {other_port}"
)
PEERS: Final = {
    "smg": _ROUTER.replace("{program}", "{program} launch --backend openai --history-backend none"),
    "vllm-router": _ROUTER,
}
"""Routers in Rust that pass the bytes on as they are; measured where their program is found."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a target runs: a folder of its own, its port, and the upstream's."""

    folder: Path
    port: int
    upstream: int


@dataclass(frozen=True, slots=True)
class Command:
    """How a target is started. *announces*: what it prints when it is ready; else its port tells."""

    argv: list[str]
    env: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    announces: str = ""
    seconds: float = _START_SECONDS


Launcher = Callable[[Place], Command]


def nginx(place: Place) -> Command:
    """The reference: a proxy in C that never looks at a body."""
    program = nginx_program()
    config = place.folder / "nginx.conf"
    config.write_text(_NGINX % {"port": place.port, "upstream": place.upstream})
    return Command([program, "-p", str(place.folder), "-c", str(config), "-e", "stderr"])


def nginx_program() -> str:
    """Where nginx is."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise BenchmarkError("nginx is missing, the reference of all ratios: apt-get install nginx")
    return program


def svir(profile: str, python: str) -> Launcher:
    """The proxy of this tree, with *profile* for the upstream, on the interpreter *python*."""

    def launch(place: Place) -> Command:
        config = place.folder / "svir.yaml"
        config.write_text(_SVIR % {"port": place.port, "upstream": place.upstream, "profile": profile})
        return Command(
            [python, "-m", "svir_proxy", "serve", "--config", str(config)],
            env={"PYTHONPATH": str(_ROOT)},
            announces="listening on",
        )

    return launch


def peer(name: str, command: str) -> Launcher:
    """Another proxy.

    *command* may hold {port}, {upstream} and {other_port}; for a name of PEERS its program will do.
    """
    template = command if "{port}" in command else PEERS.get(name, "").replace("{program}", command)
    if not template:
        raise BenchmarkError(f"--peer {name}: the command must have {{port}} and {{upstream}} where the numbers go")

    def launch(place: Place) -> Command:
        filled = template.format(port=place.port, upstream=place.upstream, other_port=free_port())
        return Command(shlex.split(filled), headers={"authorization": "Bearer none"}, seconds=_PEER_START_SECONDS)

    return launch


def installed_peers() -> dict[str, str]:
    """Names of PEERS and their programs, as far as they are on the path."""
    return {name: program for name in PEERS if (program := shutil.which(name))}


class Target:
    """One proxy that is measured; `direct`, without a launcher, is the upstream itself."""

    def __init__(self, name: str, launcher: Launcher | None, folder: Path, upstream: int) -> None:
        self.name = name
        self._launcher = launcher
        self._folder = folder
        self._upstream = upstream
        self._running: Running | None = None
        self._starts = 0
        self.port = upstream
        self.headers: Mapping[str, str] = {}
        self.start_seconds = 0.0
        """How long it took to be ready."""

    @property
    def is_process(self) -> bool:
        """Whether there is anything to start and to measure."""
        return self._launcher is not None

    def start(self) -> None:
        """Start it and wait until it is ready."""
        if self._launcher is None:
            return
        self._starts += 1
        folder = self._folder / f"{self.name}-{self._starts}"
        folder.mkdir()
        self.port = free_port()
        command = self._launcher(Place(folder, self.port, self._upstream))
        self.headers = command.headers
        try:
            self._running = Running(command.argv, folder / "log", command.env)
            if command.announces:
                self._running.wait_for_line(command.announces, command.seconds)
            else:
                self._running.wait_for_port(self.port, command.seconds)
            self.start_seconds = self._running.age
        except (OSError, BenchmarkError) as exc:
            self.stop()
            raise BenchmarkError(f"{self.name} did not start: {exc}") from exc

    def wait_until_it_answers(self) -> None:
        """Wait until requests reach the upstream through it: routers look for their servers first."""
        if self._running is None:
            return
        try:
            self._running.wait_for_answer(self.port, self.headers, PROBE, _PEER_START_SECONDS)
        except BenchmarkError as exc:
            raise BenchmarkError(f"{self.name} does not answer: {exc}") from exc

    def pids(self) -> list[int]:
        """Its processes."""
        return self._running.pids() if self._running else []

    def rss_mib(self) -> float:
        """Its memory."""
        return self._running.rss_mib() if self._running else 0.0

    def stop(self) -> None:
        """End it."""
        if self._running is not None:
            self._running.stop()
            self._running = None
