"""Pydantic's errors become lines that name a path, say what is wrong, and never repeat a value."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from svir_proxy.profiles import Profile
from svir_proxy.settings.problems import (
    SettingsError,
    dotted,
    in_words,
    join,
    problems_of,
    several,
    suggest,
    unknown_key,
)


class _Leaf(BaseModel, extra="forbid"):
    number: int = 0
    real: float = 0
    flag: bool = False
    text: str = ""
    items: list[int] = []


class _Tree(BaseModel, extra="forbid"):
    leaf: _Leaf | None = None
    leaves: list[_Leaf] = []
    needed: str

    @field_validator("needed")
    @classmethod
    def _check(cls, value: str) -> str:
        if value == "bad":
            raise ValueError("is bad; be good")
        if value == "worse":
            raise several([("", "is itself wrong"), ("[0].x", "is wrong below")])
        if value == "elsewhere":
            raise several([("leaf.text", "is wrong beside")], up=1)
        return value


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        ({}, ["needed: is missing; set it"]),
        ({"needed": 5}, ["needed: must be text; put it in quotes"]),
        ({"needed": "bad"}, ["needed: is bad; be good"]),
        ({"needed": "worse"}, ["needed: is itself wrong", "needed[0].x: is wrong below"]),
        ({"needed": "elsewhere"}, ["leaf.text: is wrong beside"]),
        ({"needed": "", "leef": 1}, ["leef: is unknown; did you mean leaf?"]),
        ({"needed": "", "zzz": 1}, ["zzz: is unknown; known are leaf, leaves, needed"]),
        ({"needed": "", "leaf": {"numbr": 1}}, ["leaf.numbr: is unknown; did you mean number?"]),
        ({"needed": "", "leaves": [{}, {"flagg": 1}]}, ["leaves[1].flagg: is unknown; did you mean flag?"]),
        ({"needed": "", "leaf": 3}, ["leaf: must be a mapping of settings"]),
        ({"needed": "", "leaves": {}}, ["leaves: must be a list"]),
        ({"needed": "", "leaf": {"number": "sk-secret"}}, ["leaf.number: must be a whole number"]),
        ({"needed": "", "leaf": {"number": 1.5}}, ["leaf.number: must be a whole number"]),
        ({"needed": "", "leaf": {"real": "sk-secret"}}, ["leaf.real: must be a number"]),
        ({"needed": "", "leaf": {"flag": "sk-secret"}}, ["leaf.flag: must be true or false"]),
        ({"needed": "", "leaf": {"items": [0, "sk-secret"]}}, ["leaf.items[1]: must be a whole number"]),
    ],
)
def test_lines(data: dict[str, Any], lines: list[str]) -> None:
    with pytest.raises(ValidationError) as refused:
        _Tree.model_validate(data)
    assert SettingsError(problems_of(refused.value, _Tree)).lines() == lines


def test_an_error_lists_each_problem_once() -> None:
    error = SettingsError([("a", "x"), ("b", "y"), ("a", "x")])
    assert error.problems == [("a", "x"), ("b", "y")]
    assert str(error) == "a: x\nb: y"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("request.imags", "is unknown; did you mean images?"),
        ("errors[0].when.statsu", "is unknown; did you mean status?"),
        ("request.images", None),
        ("request.nothing.below", None),
        ("errors[0]", None),
        ("", None),
    ],
)
def test_unknown_keys_of_a_profile(path: str, said: str | None) -> None:
    assert unknown_key(path, Profile) == said


def test_paths() -> None:
    assert dotted(("backends", 0, "headers", "X")) == "backends[0].headers.X"
    assert dotted(()) == ""
    assert [join("", "a"), join("a", ""), join("a", "[0]"), join("a", "b")] == ["a", "a", "a[0]", "a.b"]


def test_words() -> None:
    assert in_words("Value error, is odd") == "is odd"
    assert in_words("Input should be 'a' or 'b'") == "must be 'a' or 'b'"
    assert in_words("Field required") == "is missing; set it"
    assert suggest("prot", ["port", "host"]) == "is unknown; did you mean port?"
