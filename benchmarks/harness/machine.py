"""What a table of results has to say about where it comes from."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Final

from harness.targets import nginx_program

_ROOT: Final = Path(__file__).parents[2]
_PYTHON: Final = """
import importlib.metadata as m, platform
names = ("uvloop", "httptools", "orjson", "uvicorn", "httpx")
print(platform.python_version(), *(f"{n} {m.version(n)}" for n in names), sep=", ")
"""


def describe_commit() -> str:
    """The commit of this tree, and whether it was changed since."""
    return _said("git", "-C", str(_ROOT), "describe", "--always", "--dirty") or "no repository"


def describe_machine(python: str) -> dict[str, str]:
    """Processor, kernel and versions, of the interpreter *python* too."""
    model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "machine": f"{os.cpu_count()} x {model[1] if model else platform.machine()}, Linux {platform.release()}",
        "commit": describe_commit(),
        "Python": _said(python, "-c", _PYTHON),
        "nginx": _said(nginx_program(), "-v").rpartition("/")[2],
    }


def _said(*command: str) -> str:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
