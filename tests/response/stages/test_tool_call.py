"""One call under way: its name against the listed tools, its arguments against a repetition of them."""

from __future__ import annotations

import pytest

from svir_proxy.response.stages.tool_call import Call, CallName, is_json

TOOLS = ("look", "lookup", "aa")

NAMES = {
    # pieces: the name, whether it is listed, whether a listed one extends it
    "whole": (["lookup"], "lookup", True, False),
    "split": (["loo", "kup"], "lookup", True, False),
    "extended by another": (["look"], "look", True, True),
    "half of one": (["lo"], "lo", False, True),
    "unlisted": (["fly", "ing"], "flying", False, False),
    "listed and more": (["lookup", "s"], "lookups", False, False),
    "the same once more": (["look", "look"], "look", True, True),
    "two equal halves": (["a", "a"], "aa", True, False),
    "the name so far, each time": (["l", "look", "lookup"], "lookup", True, False),
    "the name so far, unlisted": (["fl", "fly"], "fly", False, False),
    "none": ([], "", False, True),
}


@pytest.mark.parametrize(("pieces", "text", "is_listed", "is_open"), NAMES.values(), ids=NAMES)
def test_names(pieces, text, is_listed, is_open):
    name = CallName(TOOLS)
    for piece in pieces:
        name.add(piece)
    assert (name.text, name.size, name.is_listed, name.is_open) == (text, len(text), is_listed, is_open)


def test_arguments_are_known_again_while_they_come_and_after_they_ended():
    call = Call(TOOLS)
    call.add('{"x"')
    assert not call.says('{"x": 1}')
    call.add(": 1}")
    assert call.is_complete
    assert call.says('{"x": 1}')
    assert call.take() == ['{"x"', ": 1}"]
    assert call.end() == '{"x": 1}'
    assert call.says('{"x": 1}')
    assert not call.says('{"x": 2}')


def test_long_arguments_are_forgotten_once_they_went_out():
    call = Call(TOOLS)
    long = '"' + "x" * (1 << 20)
    call.add(long)
    assert call.take() == [long]
    call.add('"')
    assert call.take() == ['"']
    assert not call.says(long + '"')
    assert call.end() is None
    assert not call.says(long + '"')


@pytest.mark.parametrize(
    ("text", "expected"),
    {"{}": True, "[1]": True, '"\ud83d"': True, "": False, "{": False, "{} {}": False, "[" * 100_000: False}.items(),
    ids=ascii,
)
def test_is_json(text, expected):
    assert is_json(text) is expected
