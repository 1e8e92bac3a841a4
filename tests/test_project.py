"""The project as a whole: what its tools say, that tests mirror sources, and that nothing leaks into the repository."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Final

import pytest

import svir_proxy

ROOT: Final = Path(__file__).parents[1]

_TOOLS: Final = {
    "ruff check": ("ruff", "check", "."),
    "ruff format": ("ruff", "format", "--check", "."),
    "mypy": ("mypy",),
    "import-linter": ("importlinter.cli", "lint"),
}

_UNTESTED_BY_NAME: Final = {
    "__main__.py": "two lines; tests/cli starts the program through it",
    "listener/limits.py": "declarations without behaviour",
    "response/events.py": "declarations without behaviour",
    "response/stages/stage.py": "declarations without behaviour",
    "server/transport/limits.py": "declarations without behaviour",
}
"""Sources that need no test file of their own, below ``svir_proxy/``, each with the reason."""


@pytest.mark.parametrize("tool", _TOOLS)
def test_a_tool_has_nothing_to_say(tool: str) -> None:
    done = subprocess.run([sys.executable, "-m", *_TOOLS[tool]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _sources() -> dict[str, Path]:
    """The sources that hold logic: not the ``__init__`` files that only re-export or explain."""
    package = ROOT / "svir_proxy"
    found = {path.relative_to(package).as_posix(): path for path in sorted(package.rglob("*.py"))}
    return {name: path for name, path in found.items() if path.name != "__init__.py" or "\ndef " in path.read_text()}


def _test_file(name: str) -> str:
    path = Path(name)
    stem = path.parent.name or "init" if path.name == "__init__.py" else path.stem
    return (path.parent / f"test_{stem}.py").as_posix()


def test_each_source_has_a_test_file_of_its_name() -> None:
    missing = {name for name in _sources() if not (ROOT / "tests" / _test_file(name)).exists()}
    assert missing - set(_UNTESTED_BY_NAME) == set()
    assert set(_UNTESTED_BY_NAME) <= missing, "an exemption that is not needed"


_NEEDLES: Final = {
    "a package registry": [
        "py" + "pi.org", "python" + "hosted", "npm" + "js", "deb" + "ian.org", "crates" + ".io", "proxy.go" + "lang",
    ],
    "a path of one machine": ["/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/t" + "mp/", "/Us" + "ers/"],
}  # fmt: skip


@pytest.mark.parametrize("kind", _NEEDLES)
def test_no_file_names(kind: str) -> None:
    needle = re.compile("|".join(map(re.escape, _NEEDLES[kind])).encode())
    if not (ROOT / ".git").exists():
        pytest.skip("an unpacked release, no repository")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    names = [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    assert names
    found = {name: hit.group() for name in names if (hit := needle.search((ROOT / name).read_bytes()))}
    assert not found


def test_the_package_ships_its_data() -> None:
    package = files("svir_proxy")
    assert package.joinpath("py.typed").is_file()
    shipped = {entry.name for entry in package.joinpath("profiles").iterdir() if entry.name.endswith(".yaml")}
    assert shipped == {path.name for path in (ROOT / "svir_proxy/profiles").glob("*.yaml")}
    assert "generic.yaml" in shipped


def test_the_version_is_one() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == svir_proxy.__version__


_POSSESSIVE_GROUP: Final = re.compile(r"[^)]\)(?:[*+?]|\{[0-9,]+\})\+")


def test_what_is_repeated_for_good_is_atomic() -> None:
    """Python before 3.11.5 - Debian 12 has 3.11.2 - stays where a possessive repeat of a group failed half-way.

    As in ``(?:ab|c)*+``; the group of an atomic one is all or nothing there, too: ``(?:(?>ab|c))*+``.
    """
    assert _POSSESSIVE_GROUP.search("(?:ab|c)*+")
    assert not _POSSESSIVE_GROUP.search("(?:(?>ab|c))*+")
    found = {name for name, path in _sources().items() if _POSSESSIVE_GROUP.search(path.read_text())}
    assert found == set()
