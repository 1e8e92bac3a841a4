"""The pages about servers are what the profiles and the recorded exchanges make of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

import pytest
import yaml

from docs.generate import exchanges, server, tables
from docs.generate.__main__ import FOLDER, pages
from svir_proxy.conform.cases import load_cases
from svir_proxy.profiles import Profile, builtin_names, load_profile
from tests.docs.pages import ROOT, page

MADE: Final = ("README.md", *(f"{name}.md" for name in builtin_names()))
"""The pages that are made."""


@cache
def _made() -> Mapping[str, str]:
    return pages()


def _profile(**parts: object) -> Profile:
    document = {"name": "generic", "server": "Odd", "notes": "A note.", "observed": [{"source": "run", "version": "1"}]}
    return Profile.model_validate({**document, **parts})


# ----------------------------------------------------------------- the committed pages


@pytest.mark.parametrize("name", MADE)
def test_a_committed_page_is_current(name: str) -> None:
    assert (FOLDER / name).read_text("utf-8") == _made()[name], "python -m docs.generate"


def test_there_is_a_page_for_each_profile_and_no_other() -> None:
    by_hand = {"add-your-server.md"}
    assert set(_made()) == set(MADE)
    assert {path.name for path in FOLDER.glob("*.md")} == {*MADE, *by_hand}


@pytest.mark.parametrize("name", builtin_names())
def test_a_page_has_what_a_person_looks_for(name: str) -> None:
    text, profile = _made()[f"{name}.md"], load_profile(name)
    committed = page(f"docs/servers/{name}.md")
    (configuration,) = committed.blocks("yaml")
    assert yaml.safe_load(configuration)["backends"][0]["profile"] == name
    assert configuration.strip() == (ROOT / f"config/backends/{name}.yaml").read_text("utf-8").strip()
    assert len(re.findall(r"^# ", committed.prose, re.MULTILINE)) == 1
    for path in profile.evidence:
        assert f"| `{path}` |" in text
    for case in exchanges.of_profile(name):
        assert f"/{case.key}.case.json" in text


@pytest.mark.parametrize("name", MADE)
def test_no_table_is_broken_by_what_it_shows(name: str) -> None:
    widths: list[int] = []
    for line in _made()[name].splitlines():
        if not line.startswith("|"):
            widths.clear()
            continue
        widths.append(len(re.findall(r"(?<!\\)\|", line)))
        assert len(set(widths)) == 1, line


def test_no_markup_of_a_server_is_taken_for_the_pages_own() -> None:
    for name, text in _made().items():
        bare = re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)
        tags = set(re.findall(r"(?<!\\)</?[A-Za-z][^>\n]*>", bare))
        assert tags <= {"<details>", "</details>", "<summary>", "</summary>"}, f"{name}: {tags}"


# ----------------------------------------------------------------- excerpts


def test_excerpts_are_cases_of_their_server_each_once() -> None:
    by_key = {case.key: case for case in load_cases()}
    chosen = exchanges.chosen()
    keys = [key for keys in chosen.values() for key in keys]
    assert len(keys) == len(set(keys))
    for name, of_it in chosen.items():
        assert {by_key[key].profile for key in of_it} == {name}


def test_each_server_that_was_recorded_shows_something() -> None:
    recorded = {case.profile for case in load_cases()} - {"generic"}
    assert recorded == set(exchanges.chosen())


def test_an_excerpt_leaves_out_what_a_chunk_repeats_and_keeps_its_delta() -> None:
    (first, *_) = exchanges.excerpts("mlx-vlm")
    for side in (first.server, first.client):
        _, chunk, *more = side.splitlines()
        assert '"id":' in chunk
        assert all(line.startswith((f"data: {{{exchanges.GAP},", "data: [DONE]", "data: {")) for line in more)
    assert '"reasoning_content":"' in first.server
    assert '"reasoning":"' in first.server
    assert '"reasoning":"' not in first.client


# ----------------------------------------------------------------- from facts to lines


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"request": {"images": "rejected"}}, "**An image** is refused. The proxy refuses it at once"),
        ({"request": {"model": "loads"}}, "**A model's name that it does not list** makes it load what the name says."),
        (
            {"request": {"optional_fields": {"seed": "ignored", "user": "ignored"}}},
            "**`seed`, `user`**: each is taken, and has no effect. The proxy sends it and says `ignored=FIELD`.",
        ),
        (
            {
                "request": {"optional_fields": {"seed": "rejected"}},
                "evidence": {"request.optional_fields.seed": "400 no <seed>."},
            },
            "**`seed`** is refused. The proxy leaves it out and says `drop=seed`. *Seen:* 400 no \\<seed>.",
        ),
        (
            {"request": {"reasoning_efforts": {"minimal": "low", "xhigh": None}}},
            "The proxy says `low` for `minimal` and leaves the field out for `xhigh`.",
        ),
        ({"request": {"always_send": {"a": []}}}, "**What it has to be told** is `a: []`."),
        ({"models": {"hidden": ["a|b"]}}, "match `a|b`"),
        (
            {"errors": [{"when": {"status": 400, "message": "a|b"}, "then": "overloaded"}]},
            "| status 400, a message like `a\\|b` | 503 `overloaded` |",
        ),
        ({"request": {"images": "kept", "audio": "kept"}}, "a stream of a request with tools;"),
        ({"request": {"images": "unknown"}}, "## What is not known"),
        ({"discovery": {"ports": [1, 2]}}, "found by itself on port 1 or 2"),
        ({}, "Known from trials of a running server (1)."),
        ({"notes": "Start it with --jinja, and set overrides.request.tools."}, "`--jinja`, and set `overrides.request.tools`."),
    ],
)  # fmt: skip
def test_a_fact_becomes_a_line(parts: dict[str, object], line: str) -> None:
    assert line in server.render(_profile(**parts))


def test_what_is_as_with_every_server_is_not_called_odd() -> None:
    text = server.render(_profile(name="vllm", request={"empty_tools": "rejected"}))
    assert "or a choice without tools" not in text


# ----------------------------------------------------------------- the tables


def _row(text: str, section: str) -> dict[str, str]:
    """The only row of one table, by column title."""
    table = text.partition(f"### {section}\n")[2].partition("\n### ")[0]
    titles, _, row = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in table.split("\n") if line)
    return dict(zip(titles, row, strict=True))


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
    assert _row(tables.render([_profile(request=request_facts)]), section)[column] == shown


def test_every_column_is_a_fact_of_some_profile() -> None:
    profiles = [load_profile(name) for name in builtin_names()]
    for section in tables.SECTIONS:
        for _, path in section.columns:
            assert any(server.value_of(profile, path) is not None for profile in profiles), path
