"""The unit, as systemd's own tools see it, and that its configuration and its command are right."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from svir_proxy.cli import BAD_CONFIGURATION
from svir_proxy.settings import load_settings
from tests.docs.pages import page

ROOT: Final = Path(__file__).parents[2]
UNIT: Final = ROOT / "deploy/systemd/svir-proxy.service"
TEXT: Final = UNIT.read_text("utf-8")
PROGRAM: Final = "/opt/svir-proxy/bin/svir-proxy"
LARGEST_EXPOSURE: Final = 15
"""In tenths, of a hundred."""


class _Keys(configparser.RawConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return optionstr


SERVICE: Final = _Keys(strict=False)
SERVICE.read_string(TEXT)


def _value(name: str) -> str:
    return SERVICE["Service"][name]


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that is there."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze: apt-get install systemd")
    path = tmp_path / UNIT.name
    path.write_text(TEXT.replace(PROGRAM, sys.executable))
    return path


def test_systemd_has_nothing_to_say(unit: Path) -> None:
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_little_is_exposed(unit: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", f"--threshold={LARGEST_EXPOSURE}", unit]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    level = re.search(r"Overall exposure level for svir-proxy.service: (\S+)", done.stdout)
    assert level
    assert f"exposure level {level[1]}" in page("docs/operations/systemd.md").text


def test_running_answers_end_before_it_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = dict(re.findall(r"^LoadCredential=([\w-]+):(\S+)$", TEXT, re.MULTILINE))
    assert credentials
    for name in credentials:
        (tmp_path / name).write_text("sk-one\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    settings = load_settings(ROOT / "deploy/systemd/svir.yaml")
    assert [name for name, _ in settings.auth.hashed()] == ["app"]
    assert int(_value("TimeoutStopSec")) >= settings.server.drain_seconds + 10


def test_a_wrong_configuration_is_not_tried_again() -> None:
    assert int(_value("RestartPreventExitStatus")) == BAD_CONFIGURATION


def test_the_page_puts_things_where_the_unit_looks_for_them() -> None:
    (commands,) = page("docs/operations/systemd.md").blocks("sh")
    program, *arguments = _value("ExecStart").split()
    assert program == PROGRAM
    assert arguments[:2] == ["serve", "--config"]
    for path in (
        arguments[2],
        str(Path(program).parents[1]),
        *re.findall(r"^LoadCredential=\S+:(\S+)$", TEXT, re.MULTILINE),
    ):
        assert path in commands
    for source in re.findall(r"deploy/systemd/\S+", commands):
        assert (ROOT / source).is_file()
