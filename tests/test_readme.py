"""What README.md and the pages under docs say is so: commands, configurations, before and after, tables, links."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest
import yaml

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import KINDS
from svir_proxy.profiles import builtin_names, load_profile
from svir_proxy.request.reasons import reason
from svir_proxy.response.normalizer import StreamNormalizer
from svir_proxy.response.sse_writer import SSEWriter
from svir_proxy.settings import load_settings

ROOT: Final = Path(__file__).parents[1]
README: Final = (ROOT / "README.md").read_text("utf-8")
BLOCKS: Final = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
PAGES: Final = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "tests/**/*.md", "benchmarks/**/*.md")
    for path in ROOT.glob(pattern)
)


def _blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def _rows(header: str) -> list[list[str]]:
    """The cells of the table that begins with *header*."""
    lines = README[README.index(header) :].splitlines()
    rows = [line for line in lines[2 : lines.index("")] if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


# ----------------------------------------------------------------- commands


def test_ci_runs_the_line_that_the_readme_gives() -> None:
    (line,) = [line for line in README.splitlines() if line.startswith("python3 ") and "pytest" in line]
    assert line in (ROOT / ".ci/run").read_text("utf-8").splitlines()


def test_the_demo_is_one_line_that_needs_nothing_but_python() -> None:
    (line,) = [line for line in README.splitlines() if line.startswith("python3 ") and line.endswith("svir-proxy demo")]
    assert all(part.startswith(("python3 -m venv .venv", ".venv/bin/")) for part in line.split(" && "))


# ----------------------------------------------------------------- snippets


def test_python_and_json_can_be_read() -> None:
    assert len(_blocks("python")) == 2
    for text in _blocks("python"):
        compile(text, "README.md", "exec")
    for text in _blocks("json"):
        json.loads(text)


def test_configurations_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("sk-one")
    seen = 0
    for text in _blocks("yaml"):
        if "backends" not in yaml.safe_load(text):
            continue
        seen += 1
        for name in re.findall(r"\$\{(\w+)\}", text):
            monkeypatch.setenv(name, f"sk-{name}")
        config = tmp_path / "svir.yaml"
        config.write_text(re.sub(r"/run/secrets/[\w-]+", str(tmp_path / "key"), text))
        assert load_settings(config).backends
    assert seen > 2


def test_the_profile_loads(tmp_path: Path) -> None:
    (text,) = [text for text in _blocks("yaml") if "extends" in text]
    (tmp_path / "my-server.yaml").write_text(text)
    assert load_profile("my-server.yaml", base=tmp_path).request.images == "rejected"


# ----------------------------------------------------------------- before and after


def _normalizer() -> tuple[ClientRequest, StreamNormalizer]:
    body = {"model": "qwen3", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
    request = ClientRequest.from_body(body, id="readme", received=1)
    return request, StreamNormalizer(request, load_profile("generic"))


def _line(who: str, number: int) -> str:
    lines = [line for line in _blocks("text")[0].splitlines() if line.startswith(who)]
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


# ----------------------------------------------------------------- tables and links


def test_errors_are_those_of_the_table_of_errors() -> None:
    known = {(kind.status, kind.code) for kind in KINDS.values()}
    for status, codes, _ in _rows("| status | `code`"):
        for code in re.findall(r"`(\w+)`", codes):
            assert (int(status), code) in known


def test_rewrites_are_told_as_the_code_tells_them() -> None:
    profile = load_profile("generic")
    for notes, _ in _rows("| `x-svir-rewrites`"):
        for note in re.findall(r"`([^`]+)`", notes):
            told = re.sub(r"[A-Z]+", "field", note).replace("...", "tool_choice.required")
            assert reason(told, profile).done, f"{note}: no rewrite has such a note"


def _known_from(name: str) -> int:
    """The row of the README's table that a profile belongs in."""
    sources = {observation.source for observation in load_profile(name).observed}
    if name == "generic":
        return 3
    return 0 if sources & {"recorded", "run"} else 1 if "protocol" in sources else 2


def test_each_profile_stands_where_its_evidence_puts_it() -> None:
    rows = [re.findall(r"`([\w-]+)`", names) for names, _ in _rows("| a profile for")]
    assert rows == [[name for name in builtin_names() if _known_from(name) == row] for row in range(4)]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        linked = (ROOT / page).parent / path if path else ROOT / page
        assert linked.exists(), f"{page} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", linked.read_text("utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
            assert anchor in slugs, f"{page} links to {target}"


def test_each_decision_is_in_the_index() -> None:
    folder = ROOT / "docs/decisions"
    index = (folder / "README.md").read_text("utf-8")
    for page in sorted(folder.glob("[0-9]*.md")):
        title = page.read_text("utf-8").splitlines()[0]
        assert title.startswith(f"# {page.name[:4]} ")
        assert f"| [{page.name[:4]}]({page.name}) |" in index


def test_the_tree_is_as_the_architecture_shows_it() -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    package = ROOT / "svir_proxy"
    rows = re.findall(r"^\| ((?:`[\w/]+`(?:, )?)+) \| (.+) \|$", text, re.MULTILINE)
    assert rows
    for where, holds in rows:
        places = [package / name for name in re.findall(r"`([\w/]+)`", where)]
        assert all(place.is_dir() or place.with_suffix(".py").is_file() for place in places), where
        for name in re.findall(r"`([a-z_/]+)`", holds):
            place = places[0] / name
            assert place.is_dir() or place.with_suffix(".py").is_file(), f"{where} holds no {name}"
