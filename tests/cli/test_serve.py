"""``serve``: which settings reach the application, and the real thing from end to end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from svir_proxy.cli import http_server, main
from svir_proxy.cli.serve import as_environment, worker_app
from svir_proxy.server import discovery
from svir_proxy.server.discovery import Found
from svir_proxy.settings import Settings

_ROOT: Final = Path(__file__).parents[2]
_BACKENDS = "backends: [{name: a, base_url: 'http://h'}]"


class Started:
    """What would have been served."""

    def __init__(self) -> None:
        self.app: Any = None
        self.settings = Settings()

    def serve(self, app: Any, settings: Settings) -> int:
        self.app, self.settings = app, settings
        return 0


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    started = Started()
    application = ModuleType("svir_proxy.server.app")
    application.create_app = lambda settings: ("application of", settings)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "svir_proxy.server.app", application)
    monkeypatch.setattr(http_server, "serve", started.serve)
    monkeypatch.setattr(http_server, "serve_with_workers", started.serve)

    async def find(*_: Any, **__: Any) -> list[Found]:
        return [Found("http://127.0.0.1:1234", "lm-studio", "LM Studio", ("m1",))]

    monkeypatch.setattr(discovery, "discover", find)
    return started


def test_what_is_configured_is_served(started: Started) -> None:
    Path("c.yaml").write_text(_BACKENDS)
    assert main(["serve", "--config", "c.yaml", "--host", "localhost", "--port", "0"]) == 0
    assert started.app == ("application of", started.settings)
    assert (started.settings.server.host, started.settings.server.port) == ("localhost", 0)
    assert [backend.name for backend in started.settings.backends] == ["a"]


@pytest.mark.parametrize("configuration", [None, "", "backends: []"])
def test_without_backends_those_that_run_are_served(
    started: Started, configuration: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if configuration is not None:
        Path("config").mkdir()
        Path("config/svir.yaml").write_text(configuration)
    assert main(["serve"]) == 0
    assert [(backend.name, backend.root, backend.profile) for backend in started.settings.backends] == [
        ("lm-studio", "http://127.0.0.1:1234", "lm-studio")
    ]
    assert capsys.readouterr().err == "found LM Studio on http://127.0.0.1:1234 (model m1)\n"


def test_it_starts_all_the_same_when_nothing_is_found(
    started: Started, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looked_at: list[dict[str, Any]] = []

    async def find(*_: Any, **given: Any) -> list[Found]:
        looked_at.append(given)
        return []

    monkeypatch.setattr(discovery, "discover", find)
    assert main(["serve", "--port", "8080"]) == 0
    assert looked_at == [{"skip_ports": {8080}}], "the proxy does not look for itself"
    assert started.settings.backends == []
    told = capsys.readouterr().err
    assert told.startswith("no model server found on ports 1234, ")
    assert "8080" not in told


@pytest.mark.parametrize("configuration", [None, _BACKENDS])
def test_a_worker_has_the_same_settings(
    started: Started, configuration: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SVIR_SERVER__PORT", "1001")
    argv = ["serve", "--host", "localhost", "--workers", "3"]
    if configuration is not None:
        Path("c.yaml").write_text(configuration)
        argv += ["--config", "c.yaml"]
    assert main(argv) == 0
    assert started.app == "svir_proxy.cli.serve:worker_app"
    told, settings = worker_app()  # type: ignore[misc]
    assert (told, settings) == ("application of", started.settings)
    assert (settings.server.host, settings.server.port, settings.server.workers) == ("localhost", 1001, 3)


@pytest.mark.parametrize(
    ("option", "value", "line"),
    [
        ("--port", "x", "server.port: must be a whole number (set by --port)"),
        ("--workers", "0", "server.workers: must be greater than or equal to 1 (set by --workers)"),
        (
            "--host",
            "http://h",
            "server.host: must be a host name or an address, without scheme and port (set by --host)",
        ),
    ],
)
def test_problems(started: Started, option: str, value: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", option, value]) == 2
    assert capsys.readouterr().err == f"{line}\n"
    assert started.app is None


@pytest.mark.parametrize("workers", [1, 2])
def test_the_real_thing(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(_BACKENDS)
    command = [
        sys.executable,
        "-m",
        "svir_proxy",
        "serve",
        "--config",
        str(path),
        "--port",
        "0",
        "--workers",
        str(workers),
    ]
    with subprocess.Popen(command, cwd=_ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            found = re.fullmatch(r"listening on (http://127\.0\.0\.1:\d+)\n", line)
            assert found, line
            with urllib.request.urlopen(f"{found[1]}/healthz", timeout=30) as response:
                assert response.status == 200
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_flags_as_environment() -> None:
    flags = {"server": {"host": "h", "port": "1"}, "backends": [{"name": "a"}]}
    variables = as_environment(flags)
    assert variables == {"SVIR_SERVER__HOST": "h", "SVIR_SERVER__PORT": "1", "SVIR_BACKENDS": '[{"name": "a"}]'}
    assert json.loads(variables["SVIR_BACKENDS"])
    assert not set(variables) & set(os.environ)
