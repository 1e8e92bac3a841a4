"""Names of models with a star."""

from __future__ import annotations

import pytest

from svir_proxy.server.model_names import is_like


@pytest.mark.parametrize(
    ("pattern", "like", "unlike"),
    [
        ("a", ["a"], ["", "A", "aa"]),
        ("*", ["", "a"], []),
        ("gpt-*", ["gpt-", "gpt-5"], ["gpt", "a-gpt-5"]),
        ("*/q", ["/q", "org/q"], ["q", "org/q2"]),
        ("ab*ba", ["abba", "abxba"], ["aba", "ab"]),
    ],
)
def test_one_star_stands_for_any_text(pattern: str, like: list[str], unlike: list[str]) -> None:
    assert [name for name in like + unlike if is_like(name, pattern)] == like
