"""The tables of errors and of notes hold all that the code has, and nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from svir_proxy.errors import KINDS
from svir_proxy.profiles import load_profile
from svir_proxy.request.reasons import reason
from tests.docs.pages import ROOT, Page, page

ERRORS: Final = page("docs/troubleshooting.md")
NOTES: Final = page("docs/rewrites.md")

_ANY: Final = "\0"
"""What is different each time, in a note of the code."""
_SAYERS: Final = {"note", "_note", "_tell", "Noted", "add_note"}
"""Functions one of whose arguments is a note."""


# ----------------------------------------------------------------- errors


def _errors() -> Iterator[list[str]]:
    for section in ERRORS.text.split("\n### ")[1:]:
        yield from page_of(section).rows("| status | `code` |")


def page_of(text: str) -> Page:
    """A part of the page as a page."""
    return Page(ERRORS.name, text)


def test_each_error_has_a_row_and_no_other() -> None:
    rows = {re.sub("`", "", row[1]): row for row in _errors()}
    assert set(rows) == set(KINDS)
    for kind, (status, _, again, means, do) in rows.items():
        row = KINDS[kind]
        assert int(status) == row.status
        assert again == ("yes" if row.curable else "no"), kind
        assert means
        assert do
        if row.code != kind:
            assert row.code is None
            assert "null" in means


# ----------------------------------------------------------------- notes


def _text(node: ast.AST) -> Iterator[str]:
    """The texts that an expression can be, with `_ANY` for what is not known."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else _ANY for part in node.values)
    elif isinstance(node, ast.IfExp):
        yield from _text(node.body)
        yield from _text(node.orelse)
    elif isinstance(node, ast.Tuple):
        for part in node.elts:
            yield from _text(part)


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _said() -> set[str]:
    """The notes that the sources say."""
    found: set[str] = set()
    for path in (ROOT / "svir_proxy").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and _name(node.func) in _SAYERS and node.args:
                found |= {text for argument in node.args for text in _text(argument)}
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(re.search(r"notes$|_retries$|_restored$|_before$", _name(target)) for target in targets):
                    for inner in ast.walk(node.value):
                        found |= set(_text(inner))
            elif isinstance(node, ast.FunctionDef) and node.name in ("note", "_retry_note"):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Return | ast.Assign) and inner.value is not None:
                        found |= set(_text(inner.value))
    return {note for note in found if re.fullmatch(r"[a-z_.\0]+=[^=]+", note)}


def _documented() -> list[str]:
    return [
        note
        for section in NOTES.text.split("\n## ")[1:]
        for row in page_of(section).rows("| `x-svir-rewrites` |")
        for note in re.findall(r"`([^`]+)`", row[0])
    ]


SAID: Final = sorted(_said())
DOCUMENTED: Final = _documented()


def _pattern(note: str, capitals: str) -> str:
    return re.sub(capitals, ".+", re.escape(note))


def _is_of(said: str, documented: str) -> bool:
    """Whether the page's note stands for the code's: either can be an example of the other."""
    example = said.replace(_ANY, "some.thing")
    return bool(
        re.fullmatch(_pattern(documented, "[A-Z]{2,}"), example)
        or re.fullmatch(_pattern(said, re.escape(re.escape(_ANY))), re.sub("[A-Z]{2,}", "some.thing", documented))
    )


def test_the_sources_say_notes() -> None:
    assert len(SAID) > 40
    assert {f"drop={_ANY}", "model=alias", "tool_calls=unlisted", f"failover={_ANY}:{_ANY}"} <= set(SAID)


@pytest.mark.parametrize("note", SAID)
def test_each_note_is_explained(note: str) -> None:
    assert any(_is_of(note, documented) for documented in DOCUMENTED)


@pytest.mark.parametrize("note", DOCUMENTED)
def test_each_explained_note_is_said(note: str) -> None:
    assert any(_is_of(said, note) for said in SAID)


def test_none_is_explained_twice() -> None:
    assert len(DOCUMENTED) == len(set(DOCUMENTED))


def test_explain_knows_the_notes_of_requests_too() -> None:
    profile = load_profile("generic")
    for row in page_of(NOTES.text.partition("## The request\n")[2]).rows("| `x-svir-rewrites` |"):
        for note in re.findall(r"`([^`]+)`", row[0]):
            told = re.sub("[A-Z]{2,}", "field", note.replace("DEMAND", "tool_choice.required"))
            assert reason(told, profile).done, note
