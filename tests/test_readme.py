"""What README.md says is so: its commands, its configurations, what it shows before and after, its tables."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from svir_proxy.cli import COMMANDS
from svir_proxy.client_request import ClientRequest
from svir_proxy.profiles import builtin_names, load_profile
from svir_proxy.response.normalizer import StreamNormalizer
from svir_proxy.response.sse_writer import SSEWriter
from tests.docs.pages import ROOT, page

README: Final = page("README.md")
LINES: Final = README.text.splitlines()


# ----------------------------------------------------------------- commands


def test_ci_runs_the_line_that_the_readme_gives() -> None:
    (line,) = [line for line in LINES if line.startswith("python3 ") and "pytest" in line]
    assert line in (ROOT / ".ci/run").read_text("utf-8").splitlines()


def test_the_demo_is_one_line_that_needs_nothing_but_python() -> None:
    (line,) = [line for line in LINES if line.startswith("python3 ") and line.endswith("svir-proxy demo")]
    assert all(part.startswith(("python3 -m venv .venv", ".venv/bin/")) for part in line.split(" && "))


@pytest.mark.parametrize("name", COMMANDS)
def test_it_names_each_command(name: str) -> None:
    assert re.search(rf"svir-proxy {name}\b", README.text), "say what it is for, or which page does"


def test_what_a_new_user_types_is_a_command_with_options_that_it_has() -> None:
    asked = re.findall(r"^svir-proxy (\w+)(.*)$", "\n".join(README.blocks("sh")), re.MULTILINE)
    assert asked
    for name, rest in asked:
        done = subprocess.run(
            [sys.executable, "-m", "svir_proxy", name, "--help"], capture_output=True, text=True, check=True, cwd=ROOT
        )
        assert set(re.findall(r"--[a-z][a-z-]+", rest)) <= set(re.findall(r"--[a-z][a-z-]+", done.stdout)), name


def test_it_can_be_read_in_a_few_minutes() -> None:
    assert len(LINES) < 300, "long parts go to pages under docs"


def test_the_profile_loads(tmp_path: Path) -> None:
    (tmp_path / "my-server.yaml").write_text(README.block("yaml", "extends"))
    assert load_profile("my-server.yaml", base=tmp_path).request.images == "rejected"


# ----------------------------------------------------------------- before and after


def _normalizer() -> tuple[ClientRequest, StreamNormalizer]:
    body = {"model": "qwen3", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
    request = ClientRequest.from_body(body, id="readme", received=1)
    return request, StreamNormalizer(request, load_profile("generic"))


def _line(who: str, number: int) -> str:
    lines = [line for line in README.blocks("text")[0].splitlines() if line.startswith(who)]
    return lines[number].removeprefix(who).strip()


def test_a_chunk_becomes_the_one_that_is_shown() -> None:
    request, normalizer = _normalizer()
    writer = SSEWriter(request)
    identity, delta = normalizer.receive_data(_line("mlx-vlm", 0).encode() + b"\n\n")
    writer.write(identity)
    writer.open()
    assert writer.write(delta).decode().strip() == _line("svir-proxy", 0)


def test_an_error_becomes_the_one_that_is_shown() -> None:
    _, normalizer = _normalizer()
    data = _line("LM Studio", 0).partition("data: ")[2]
    normalizer.receive_data(f"event: error\ndata: {data}\n\n".encode())
    assert normalizer.error is not None
    assert f"{normalizer.error.status} {normalizer.error.body().decode()}" == _line("svir-proxy", 1)


# ----------------------------------------------------------------- tables


def _known_from(name: str) -> int:
    """The row of the README's table that a profile belongs in."""
    sources = {observation.source for observation in load_profile(name).observed}
    if name == "generic":
        return 3
    return 0 if sources & {"recorded", "run"} else 1 if "protocol" in sources else 2


def test_each_profile_stands_where_its_evidence_puts_it() -> None:
    rows = [re.findall(r"`([\w-]+)`", names) for names, _ in README.rows("| a profile for")]
    assert rows == [[name for name in builtin_names() if _known_from(name) == row] for row in range(4)]
