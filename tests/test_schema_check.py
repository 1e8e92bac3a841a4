"""A client's schema against a model's answer: what is told, and that neither can stop the proxy."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

import pytest

from svir_proxy.schema_check import mismatch

DRAFT_4: Final = "http://json-schema.org/draft-04/schema#"


@pytest.mark.parametrize(
    ("schema", "text", "problem"),
    [
        ({"type": "object"}, "{}", None),
        ({"type": "object"}, "{", "the answer is not JSON: "),
        ({"type": "object"}, "[]", "at /: [] is not of type 'object'"),
        ({"properties": {"a": {"items": {"enum": [1]}}}}, '{"a": [1, 2]}', "at /a/1: 2 is not one of [1]"),
        ({"$defs": {"a": {"type": "null"}}, "items": {"$ref": "#/$defs/a"}}, "[null, 1]", "at /1: 1 is not of type"),
        ({"$schema": DRAFT_4, "additionalItems": False, "items": [{}]}, "[1, 2]", "Additional items"),
        ({"properties": {"a": {}}, "additionalProperties": False}, '{"b": 1}', "Additional properties"),
        ({"patternProperties": {"b": {}}, "additionalProperties": False}, '{"a": 1}', None),
        ({"$ref": "#/nowhere"}, "{}", None),
        ({"type": 5}, "{}", None),
    ],
)
def test_what_is_told(schema: dict[str, Any], text: str, problem: str | None) -> None:
    found = mismatch(text, schema)
    assert (found is None) == (problem is None)
    assert problem is None or problem in str(found)


def test_an_answer_of_a_thousand_values_is_checked_in_whole() -> None:
    item = {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "integer"}, "b": {"enum": [1, 2]}}}
    schema = {"type": "array", "items": {"allOf": [item]}}
    good = [{"a": number, "b": 1} for number in range(1000)]
    assert mismatch(json.dumps(good), schema) is None
    assert "at /1000/a" in str(mismatch(json.dumps([*good, {"a": "x", "b": 1}]), schema))


def _referring(keyword: str) -> dict[str, Any]:
    """Each definition asks twice for the next one."""
    definitions: dict[str, Any] = {"a60": {"type": "object"}}
    for number in range(60):
        ask = {"$ref": f"#/$defs/a{number + 1}"}
        definitions[f"a{number}"] = {keyword: [ask, ask]}
    return {"$defs": definitions, "$ref": "#/$defs/a0"}


A_TO_B: Final = json.dumps({"a" * 20 + "b": 1})
LONG: Final = json.dumps({"a": ["x" * 100] * 3000})
ENDLESS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "references": (_referring("allOf"), "{}"),
    "references that differ": (_referring("oneOf"), "[]"),
    "itself": ({"$ref": "#"}, "{}"),
    "itself in itself": ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, "{}"),
    "names by pattern": ({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}, A_TO_B),
    "names left over": ({"patternProperties": {"^(a+)+$": {}}, "unevaluatedProperties": False}, A_TO_B),
    "names of names": ({"propertyNames": {"pattern": "^(a+)+$"}}, A_TO_B),
    "items that are the same": ({"items": {"uniqueItems": True}}, json.dumps([[{"a": n} for n in range(5000)]])),
    "choices": ({"items": {"enum": [*range(20_000)]}}, json.dumps([-1] * 5000)),
    "choices of objects": ({"items": {"enum": [{"a": n} for n in range(9000)]}}, json.dumps([{"a": -1}] * 5000)),
    "words about long values": ({"anyOf": [{"type": "null"}] * 3000}, LONG),
    "an anchor looked for": (
        {"$defs": {str(n): {} for n in range(3000)}, "items": {"$ref": "#x"}},
        "[" + "1," * 9000 + "1]",
    ),
    "keys demanded": ({"items": {"required": ["a"] * 5000}}, "[" + "{}," * 5000 + "{}]"),
    "properties": ({"items": {"properties": {str(n): {} for n in range(5000)}}}, "[" + "{}," * 5000 + "{}]"),
}


class _EndlessError(BaseException):
    """Nothing in between may take it for an error of the schema's."""


@pytest.mark.parametrize("name", ENDLESS)
def test_no_schema_stops_the_proxy(name: str) -> None:
    """Counted in calls: without a measure these make millions to more than there is time for."""
    schema, text = ENDLESS[name]
    calls = 0

    def count(_: Any, event: str, called: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 1_000_000 or (event == "c_call" and called.__name__ == "search"):
            raise _EndlessError(f"call {calls}: {called}")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        mismatch(text, schema)
    finally:
        sys.setprofile(before)
    assert calls
