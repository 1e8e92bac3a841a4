"""The page of servers is the profiles', word for word."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from svir_proxy.profiles import Profile, builtin_names, load_profile
from svir_proxy.profiles.table import SECTIONS, render

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "servers" / "README.md"


def _profile(**parts: object) -> Profile:
    document = {"name": "odd", "server": "Odd", "notes": "A note.", "observed": [{"source": "probe", "version": "1"}]}
    return Profile.model_validate({**document, **parts})


def _row(page: str, section: str, name: str = "odd") -> dict[str, str]:
    """The row of one server in one table, by column title."""
    table = page.partition(f"## {section}\n")[2].partition("\n## ")[0]
    lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line[:1] == "|"]
    [row] = [line for line in lines if line[0].startswith(f"[{name}]")]
    return dict(zip(lines[0], row, strict=True))


def test_the_committed_page_is_current() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "svir_proxy.profiles.table"], capture_output=True, check=True, cwd=ROOT, text=True
    )
    assert PAGE.read_text("utf-8") == made.stdout, "python -m svir_proxy.profiles.table > docs/servers/README.md"


def test_each_server_has_a_row_in_each_table_and_a_part_of_its_own() -> None:
    page = PAGE.read_text("utf-8")
    for name in builtin_names():
        for section in SECTIONS:
            assert _row(page, section.title, name)
        assert page.count(f"\n## {name}\n") == 1
        assert (PAGE.parent / f"../../config/backends/{name}.yaml").exists()


def test_every_column_is_a_fact_of_some_profile() -> None:
    profiles = [load_profile(name) for name in builtin_names()]
    for section in SECTIONS:
        for _, path in section.columns:
            listed = []
            for profile in profiles:
                try:
                    listed.append(profile.fact(path))
                except KeyError:
                    continue
            assert listed, path


@pytest.mark.parametrize(
    ("request_facts", "section", "column", "shown"),
    [
        ({"tools": "unknown"}, "Tools", "tools", "?"),
        ({"tool_choice": {"named": "rejected"}}, "Tools", "named function", "rejected"),
        ({}, "Answers", "`seed`", "?"),
        ({"optional_fields": {"seed": "ignored"}}, "Answers", "`seed`", "ignored"),
        ({"stream": "always"}, "Connections", "always streamed", "yes"),
        ({"model": "loads"}, "Connections", "other model names", "loaded"),
        ({}, "Connections", "chat", "`/v1/chat/completions`"),
    ],
)
def test_a_cell_shows_the_fact(request_facts: dict[str, object], section: str, column: str, shown: str) -> None:
    assert _row(render([_profile(request=request_facts)]), section)[column] == shown


def test_a_servers_part_tells_where_each_fact_is_from() -> None:
    page = render(
        [
            _profile(
                request={"images": "rejected"}, evidence={"request.images": "400 a|b\nc"}, discovery={"ports": [5000]}
            )
        ]
    )
    part = page.partition("\n## odd\n")[2]
    assert "Odd. A note." in part
    assert "Known from: probe 1." in part
    assert "on port 5000" in part
    assert "| `request.images` | `rejected` | 400 a\\|b c |" in part


def test_no_table_is_broken_by_what_it_shows() -> None:
    widths: list[int] = []
    for line in PAGE.read_text("utf-8").splitlines():
        if not line.startswith("|"):
            widths.clear()
            continue
        widths.append(len(re.findall(r"(?<!\\)\|", line)))
        assert len(set(widths)) == 1, line
