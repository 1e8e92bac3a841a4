"""Where clients run: in the tests' own Python, in an environment made for one of them, or in Node.

What is made is kept in pytest's cache under a name that tells what is in it: it is made once, not once a run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.clients.client import Client

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
PATIENCE: Final = 300.0
"""Seconds that an installation may take."""

VARIABLES: Final = {
    "NO_PROXY": "127.0.0.1",
    "no_proxy": "127.0.0.1",
    # A folder without certificates: nothing here speaks TLS, and a client for each job would read all authorities each time.
    "SSL_CERT_DIR": str(HERE),
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else importing it asks the network for prices
    "LANGSMITH_TRACING": "false",
    "PYTHONWARNINGS": "ignore",
}


class Unavailable(Exception):  # noqa: N818 -- a reason to skip, no error
    """A client cannot run here; the text says why and what helps."""


def environment() -> dict[str, str]:
    """The environment of a client: nothing that turns it to another server, or has it tell others what it does."""
    foreign = (
        "OPENAI_",
        "LANGCHAIN_",
        "LANGSMITH_",
        "LITELLM_",
        "HOSTED_VLLM_",
        "LOGFIRE_",
        "PYTEST_",
        "COV_",
        "SSL_CERT_",
    )
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | VARIABLES


def command(client: Client, cache: Path) -> list[str]:
    """The command that runs the adapter, for the folder `ROOT`; Unavailable where that cannot be."""
    if client.runs == "node":
        return _node(client, cache)
    python = sys.executable if client.runs == "here" else _python_before(client, cache)
    if client.runs == "here" and importlib.util.find_spec(client.needs) is None:
        raise Unavailable(f"{client.needs} is not installed: pip install 'svir-proxy[clients]'")
    return [python, "-m", f"tests.clients.adapters.{client.module}"]


def _python_before(client: Client, cache: Path) -> str:
    """An environment with the major version before the installed one."""
    if importlib.util.find_spec(client.needs) is None:
        raise Unavailable(f"{client.needs} is not installed, so there is no version before it")
    before = int(version(client.needs).split(".", maxsplit=1)[0]) - 1
    folder = cache / f"{client.needs}-{before}-{sys.implementation.cache_tag}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=cache) as made:
            wanted = f"{client.needs}=={before}.*"
            _run([sys.executable, "-m", "venv", "--without-pip", made], "making an environment")
            pip = [sys.executable, "-m", "pip", "--python", f"{made}/bin/python"]
            _run([*pip, "install", "--quiet", wanted], f"pip install {wanted}")
            _keep(Path(made), folder)
    return str(folder / "bin" / "python")


def _node(client: Client, cache: Path) -> list[str]:
    """The adapters beside the packages of the lock file: there Node looks for what they import."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Unavailable("there is no node or no npm on this machine")
    sources = HERE / "node"
    packages = [sources / "package.json", sources / "package-lock.json"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in packages)).hexdigest()[:16]
    folder = cache / f"node-{digest}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=cache) as made:
            for path in packages:
                shutil.copy(path, made)
            _run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", made], "npm ci")
            _keep(Path(made), folder)
    for path in sources.glob("*.mjs"):
        shutil.copy(path, folder)
    return [node, str(folder / client.module)]


def _run(arguments: Sequence[str], does: str) -> None:
    """Runs a step of an installation; Unavailable with the first complaint where it fails."""
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{does} took longer than {PATIENCE:.0f} s") from None
    if done.returncode:
        lines = (done.stderr + done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
        raise Unavailable(f"{does} failed: {next((line for line in lines if 'error' in line.lower()), lines[-1])}")


def _keep(made: Path, folder: Path) -> None:
    """Gives what was made its name, unless another run was first."""
    made.chmod(0o755)
    try:
        made.rename(folder)
    except OSError:
        if not folder.exists():
            raise
    else:
        made.mkdir()  # its maker removes it
