"""``serve``: which settings reach the application, and the real thing from end to end."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from svir_proxy.cli import http_server, main, supervisor
from svir_proxy.cli.serve import make_app
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

    def serve(self, app: Any, settings: Settings, source: Any) -> int:
        self.app, self.settings = app, settings
        assert source.read(settings) == settings, "what is read again is what was read"
        return 0


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    started = Started()
    application = ModuleType("svir_proxy.server.app")
    application.create_app = lambda settings, place=None: ("application of", settings)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "svir_proxy.server.app", application)
    monkeypatch.setattr(http_server, "serve", started.serve)
    monkeypatch.setattr(supervisor, "serve_with_workers", started.serve)

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
    told = "found LM Studio on http://127.0.0.1:1234 (model m1)\n"
    assert capsys.readouterr().err == told * 2, "it looks again when the configuration is read again"


def test_it_starts_all_the_same_when_nothing_is_found(
    started: Started, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looked_at: list[dict[str, Any]] = []

    async def find(*_: Any, **given: Any) -> list[Found]:
        looked_at.append(given)
        return []

    monkeypatch.setattr(discovery, "discover", find)
    assert main(["serve", "--port", "8080"]) == 0
    assert looked_at == [{"skip_ports": {8080}}] * 2, "the proxy does not look for itself"
    assert started.settings.backends == []
    told = capsys.readouterr().err
    assert told.startswith("no model server found on ports 1234, ")
    assert "8080" not in told


def test_workers_are_given_the_settings_and_the_profiles_as_they_were_checked(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SVIR_SERVER__PORT", "1001")
    Path("mine.yaml").write_text("name: mine\nserver: Mine\nobserved: [{source: run}]\n")
    Path("c.yaml").write_text("backends: [{name: a, base_url: 'http://h', api_key: k, profile: mine.yaml}]")
    assert main(["serve", "--host", "localhost", "--workers", "3", "--config", "c.yaml"]) == 0
    assert started.app is make_app
    Path("mine.yaml").unlink()
    handed = pickle.loads(pickle.dumps(started.settings))
    assert handed == started.settings
    assert (handed.server.host, handed.server.port, handed.server.workers) == ("localhost", 1001, 3)
    [backend] = handed.backends
    assert (backend.loaded_profile.server, backend.key.get_secret_value()) == ("Mine", "k")
    assert make_app(handed) == ("application of", handed)  # type: ignore[comparison-overlap]


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
