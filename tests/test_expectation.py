"""What an answer has to be, and the JSON in what a model wrote around it."""

from __future__ import annotations

import json
import urllib.request
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.expectation import Expectation, unfenced

CALLS: Final = Expectation("tool_choice.required", calls=frozenset({"f", "g"}))
DRAFT_7: Final = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "definitions": {"n": {"type": "integer"}},
    "type": "object",
    "properties": {"pair": {"type": "array", "items": [{"$ref": "#/definitions/n"}, {"type": "string"}]}},
}
NAMES: Final = {
    "type": "object",
    "properties": {"names": {"type": "array", "items": {"type": "string"}}},
    "required": ["names"],
}


def _json(schema: Any) -> Expectation:
    return Expectation("response_format.json_schema", schema=schema)


@pytest.mark.parametrize(
    ("calls", "problem"),
    [
        (["f"], None),
        (["g", "f", "f"], None),
        ([], "no function was called"),
        (["h"], "h was called, not f or g"),
        (["f", "h"], "h was called, not f or g"),
    ],
)
def test_calls(calls: list[str], problem: str | None) -> None:
    assert CALLS.unmet(calls, "some text") == problem


@pytest.mark.parametrize(
    ("schema", "text", "problem"),
    [
        ({"type": "object"}, "{}", None),
        ({"type": "object"}, "[]", "the answer does not match the schema at /: [] is not of type 'object'"),
        ({"type": "object"}, "", "the answer is not JSON: "),
        ({"type": "object"}, "Sure! {}", "the answer is not JSON: "),
        ({"type": "object"}, '{"a": NaN}', "the answer is not JSON: "),
        ({"type": "object"}, '{"a": "\ud800"}', "the answer is not JSON: "),
        (NAMES, '{"names": ["a"]}', None),
        (NAMES, '{"names": ["a", 5]}', "the answer does not match the schema at /names/1: 5 is not of type 'string'"),
        (NAMES, "{}", "the answer does not match the schema at /: 'names' is a required property"),
        (DRAFT_7, '{"pair": [1, "a"]}', None),
        (DRAFT_7, '{"pair": ["a", "a"]}', "the answer does not match the schema at /pair/0: "),
        ({}, "5", None),
        # what nobody can apply demands nothing more than JSON
        ({"$ref": "#/nowhere"}, "5", None),
        ({"type": "string", "pattern": "("}, '"a"', None),
        ({"type": "nonsense"}, "5", None),
        ({"$schema": ["x"], "type": "object"}, "{}", None),
        ({"$ref": "#"}, "5", None),
    ],
)
def test_json(schema: Any, text: str, problem: str | None) -> None:
    found = _json(schema).unmet([], text)
    assert found is None if problem is None else found is not None and found.startswith(problem)


def test_a_call_is_an_answer_without_a_format() -> None:
    assert _json({"type": "object"}).unmet(["f"], "") is None


def test_nothing_is_demanded_of_an_answer_without_expectation() -> None:
    assert Expectation("").unmet([], "anything") is None


def test_a_schema_opens_no_way_into_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(urllib.request, "urlopen", lambda *args, **_: asked.append(args))
    assert _json({"$ref": "http://192.0.2.1/schema.json"}).unmet([], "{}") is None
    assert asked == []


def test_a_problem_is_told_in_few_words() -> None:
    found = _json({"const": 1}).unmet([], json.dumps("x" * 10_000))
    assert found is not None
    assert len(found) < 400


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        (' {"a": 1}\n', '{"a": 1}'),
        ('```json\n{"a": 1}\n```', '{"a": 1}'),
        ('```\n{"a": 1}\n```', '{"a": 1}'),
        ('```json {"a": 1}```', '{"a": 1}'),
        ("```json\ntrue\n```", "true"),
        ("```true```", "true"),
        ('Here it is:\n```json\n{"a": 1}\n```\nBye', '{"a": 1}'),
        ('```json\n{"a": "```"}\n```', '{"a": "```"}'),
        ('Sure: {"a": [1]}', '{"a": [1]}'),
        ("The list is [1, 2]", "[1, 2]"),
        ("true", "true"),
    ],
)
def test_json_without_what_was_put_around_it(text: str, inside: str) -> None:
    assert unfenced(text) == inside


@pytest.mark.parametrize(
    "text", ["", "Hello", '{"a": 1', "```json\n{", 'See {"a": 1} and more', "[" * 100_000, "``````"]
)
def test_what_is_no_json_stays_as_it_is(text: str) -> None:
    assert unfenced(text) == text


_VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
_OBJECTS: Final = st.dictionaries(st.text(max_size=5), _VALUES, max_size=4)


@given(_VALUES)
def test_any_json_is_found_as_it_is_and_in_a_fence(value: Any) -> None:
    text = json.dumps(value)
    assert json.loads(unfenced(text)) == value
    assert json.loads(unfenced(f"```json\n{text}\n```")) == value


@given(_OBJECTS)
def test_any_object_is_found_behind_prose(value: dict[str, Any]) -> None:
    assert json.loads(unfenced(f"Certainly. Here it is:\n\n{json.dumps(value)}\n")) == value


@given(st.text())
def test_any_text_survives(text: str) -> None:
    assert unfenced(text).strip() in text
    _json({"type": "object"}).unmet([], text)


def test_a_pattern_of_the_clients_cannot_stop_the_proxy() -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}, "patternProperties": {"^(b+)+$": False}}
    expectation = Expectation("f", schema=schema)
    assert expectation.unmet([], f'{{"a": "{"a" * 40}b", "{"b" * 40}c": 1}}') is None
    assert expectation.unmet([], '{"a": 1}') is not None
