"""Whom a name means, by the configuration alone."""

from __future__ import annotations

import pytest

from svir_proxy.server.aliases import Aliases

TABLE = {
    "local": {"fast": "qwen", "gpt-*": "qwen", "*-mini": "small", "gpt-4*": "large-*", "*": "qwen"},
    "cloud": {"fast": "gpt-4o-mini", "openai/*": "*", "gpt-4*": "gpt-4*", "*": "*"},
}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("fast", [("local", "qwen"), ("cloud", "gpt-4o-mini")]),
        ("gpt-3.5", [("local", "qwen")]),
        ("gpt-", [("local", "qwen")]),
        # the longer pattern, and of those that are as long the first
        ("gpt-4o", [("local", "large-o"), ("cloud", "gpt-4o")]),
        ("gpt-4-mini", [("local", "small")]),
        ("o3-mini", [("local", "small")]),
        ("openai/o3-mini", [("cloud", "o3-mini")]),
        # a star that would leave no name at all is no match
        ("openai/", [("local", "qwen"), ("cloud", "openai/")]),
        ("", [("local", "qwen")]),
        ("mini", [("local", "qwen"), ("cloud", "mini")]),
        ("claude", [("local", "qwen"), ("cloud", "claude")]),
    ],
)
def test_the_most_exact_name_counts(model: str, expected: list[tuple[str, str]]) -> None:
    aliases = Aliases(TABLE.items())
    assert aliases.has_stars
    assert list(aliases.exact.get(model) or aliases.matching(model) or aliases.rest(model)) == expected


@pytest.mark.parametrize(
    ("backend", "model", "names"),
    [
        ("local", "qwen", ["fast", "gpt-*", "*"]),
        ("local", "large-o", ["gpt-4o"]),
        ("local", "large", []),
        ("cloud", "o3", ["openai/o3", "o3"]),
        ("cloud", "gpt-4o-mini", ["fast", "openai/gpt-4o-mini", "gpt-4o-mini", "gpt-4o-mini"]),
        ("other", "qwen", []),
    ],
)
def test_the_names_of_a_model(backend: str, model: str, names: list[str]) -> None:
    assert sorted(Aliases(TABLE.items()).names_of(backend, model)) == sorted(names)


def test_what_stands_around_a_star_does_not_overlap() -> None:
    aliases = Aliases([("a", {"aba*ba": "x"})])
    assert [bool(aliases.matching(model)) for model in ("aba", "ababa", "ababba", "aba-ba")] == [
        False,
        True,
        True,
        True,
    ]
    assert Aliases([("a", {"ab*ba": "x"})]).matching("aba") == ()


def test_nobody() -> None:
    aliases: Aliases[str] = Aliases([("a", {"x": "y"})])
    assert (aliases.has_stars, aliases.matching("z"), aliases.rest("z")) == (False, (), ())


@pytest.mark.parametrize(
    ("model", "pattern"),
    [
        ("gpt-3.5", "gpt-*"),
        ("gpt-4o", "gpt-4*"),
        ("o3-mini", "*-mini"),
        ("openai/o3", "openai/*"),
        ("openai/", "*"),
        ("claude", "*"),
    ],
)
def test_the_name_that_another_is_like(model: str, pattern: str) -> None:
    assert Aliases(TABLE.items()).pattern_of(model) == pattern


def test_the_name_that_nothing_is_like() -> None:
    assert Aliases([("a", {"x": "y", "gpt-*": "z"})]).pattern_of("claude") is None
