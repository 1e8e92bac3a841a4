"""The command line as a whole."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

import svir_proxy
from svir_proxy import cli

ROOT: Final = Path(__file__).parents[2]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"svir-proxy {svir_proxy.__version__}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert all(f"{name} " in told and meaning[:20] in told for name, meaning in cli.COMMANDS.items())


@pytest.mark.parametrize("argv", [[], ["srve"], ["check", "--port", "1"], ["serve", "extra"]])
def test_a_command_line_that_is_none(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv)
    assert ended.value.code == 2
    assert "usage: svir-proxy" in capsys.readouterr().err


def test_ctrl_c_has_a_status_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("svir_proxy.cli.check"), "run", interrupt)
    assert cli.main(["check"]) == 130


@pytest.mark.parametrize("argv", [["conform", "--rules"], ["check"]])
def test_a_reader_that_has_enough_is_no_error(argv: list[str], tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "svir_proxy", *argv]
    try:
        done = subprocess.run(command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("argv", [["--version"], ["serve", "--help"], ["check", "--help"]])
def test_what_needs_no_settings_imports_none(argv: list[str]) -> None:
    code = (
        "import sys\nfrom svir_proxy.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "print(*{'pydantic', 'httpx', 'uvicorn', 'starlette', 'yaml'} & set(sys.modules), sep=',', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == "\n"


def test_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "svir_proxy", "check", "--config", "absent.yaml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("absent.yaml: cannot be read")
