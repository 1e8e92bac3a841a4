"""The tables of errors and of changes are those of the code."""

from __future__ import annotations

import re

from svir_proxy.errors import KINDS
from svir_proxy.profiles import load_profile
from svir_proxy.request.reasons import reason
from tests.docs.pages import page


def test_errors_are_those_of_the_table_of_errors() -> None:
    known = {(kind.status, kind.code) for kind in KINDS.values()}
    for status, codes, _ in page("docs/troubleshooting.md").rows("| status | `code`"):
        for code in re.findall(r"`(\w+)`", codes):
            assert (int(status), code) in known


def test_rewrites_are_told_as_the_code_tells_them() -> None:
    profile = load_profile("generic")
    for notes, _ in page("docs/rewrites.md").rows("| `x-svir-rewrites`"):
        for note in re.findall(r"`([^`]+)`", notes):
            told = re.sub(r"[A-Z]+", "field", note).replace("...", "tool_choice.required")
            assert reason(told, profile).done, f"{note}: no rewrite has such a note"
