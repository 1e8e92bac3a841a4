"""Patterns of operators on text of models."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy import patterns
from svir_proxy.patterns import Pattern, PatternError


@pytest.mark.parametrize(
    ("pattern", "text", "replaced"),
    [
        ("b", "abc", "a-c"),
        ("(?i)B", "abcb", "a-c-"),
        (r"\d{4} ?\d{4}", "1234 5678, 12345678", "-, -"),
        (r"\bsecret\b", "secrets secret", "secrets -"),
        ("a.*c", "xa\nc", "xa\nc"),
        ("(?s)a.*c", "xa\nc", "x-"),
        ("^b", "a\nb", "a\nb"),
        ("(?m)^b", "a\nb", "a\n-"),
        ("é", "é\u0301é", "-\u0301-"),
        ("😀", "\ud83d\ude00!", "-!"),
        ("x", "half \ud83d x", "half \ufffd -"),
        ("x*", "axxb", "a-b"),
        ("nothing", "as it is", "as it is"),
    ],
)
def test_matches_are_replaced(pattern: str, text: str, replaced: str) -> None:
    assert Pattern(pattern).replaced(text, "-") == replaced
    assert Pattern(pattern).found_in(text) == (replaced != text or pattern == "x*")


def test_a_replacement_is_taken_word_for_word() -> None:
    assert Pattern("(b)").replaced("abc", r"\1$1\g<1>") == r"a\1$1\g<1>c"


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("hush(", "missing )"),
        (r"(hush)\1", "invalid escape sequence"),
        ("(?=hush)", "invalid perl operator"),
        ("(?:hush{1000}){9}", "invalid repetition size"),
        (r"\p{L}{500}hush", "pattern too large"),
        (r"\p{L}{100}hush", "is too large"),
        ("hush\ud800", "half a character"),
    ],
)
def test_what_is_no_pattern_is_told_without_its_words(pattern: str, said: str) -> None:
    with pytest.raises(PatternError) as caught:
        Pattern(pattern)
    assert said in str(caught.value)
    assert "hush" not in str(caught.value), "it may be what nobody shall read"


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(PatternError, match=r"pip install 'svir-proxy\[rules\]'"):
        Pattern("x")


@given(st.text(st.characters(codec=None, categories=None), max_size=40))
def test_what_was_replaced_is_found_no_more(text: str) -> None:
    pattern = Pattern("[a-m0-4]+")
    assert not pattern.found_in(pattern.replaced(text, "-"))


@pytest.mark.parametrize(("pattern", "left"), [("(x+x+)+y", 100_000), (r"x[^\n]*y|x", 21), ("(?i)(xx|X)*z", 100_000)])
def test_what_python_would_search_for_ever_is_searched_a_bounded_number_of_times(
    pattern: str, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "_STEPS", 2_000_000)
    monkeypatch.setattr(patterns, "_MATCHES", 10)
    assert len(Pattern(pattern).replaced("x" * 100_000, "-")) == left, "20 matches, and the rest as a whole"
    assert Pattern(pattern).replaced("xy" * 8, "-").count("-") <= 9
