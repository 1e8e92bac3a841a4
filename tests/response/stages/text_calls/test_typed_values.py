from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.response.stages.text_calls.typed_values import json_of_text, json_or_string

CYCLE = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}

VALUES = {
    "string": ({"type": "string"}, "7", '"7"'),
    "string keeps space": ({"type": "string"}, " a\n", '" a\\n"'),
    "unknown parameter": (None, "7", '"7"'),
    "no type": ({}, "7", '"7"'),
    "integer": ({"type": "integer"}, " 7\n", "7"),
    "integer as written": ({"type": "integer"}, "1e20", "1e20"),
    "integer that is none": ({"type": "integer"}, " seven ", '" seven "'),
    "leading zero": ({"type": "number"}, "007", '"007"'),
    "no number": ({"type": "number"}, "NaN", '"NaN"'),
    "boolean": ({"type": "boolean"}, "false", "false"),
    "python's boolean": ({"type": "boolean"}, "True", "true"),
    "python's word in a string": ({"type": "string"}, "True", '"True"'),
    "object": ({"type": "object"}, '{"a": [1]}', '{"a": [1]}'),
    "array that is none": ({"type": "array"}, "[1, ", '"[1, "'),
    "or string": ({"type": ["integer", "string"]}, "7", '"7"'),
    "or null": ({"type": ["string", "null"]}, "null", "null"),
    "or null, a string": ({"type": ["string", "null"]}, "nil", '"nil"'),
    "none": ({"type": ["integer", "null"]}, "None", "null"),
    "any of": ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "5", "5"),
    "one of with string": ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "5", '"5"'),
    "all of": ({"allOf": [{"type": "array"}]}, "[1]", "[1]"),
    "properties only": ({"properties": {}}, "{}", "{}"),
    "items only": ({"items": {}}, "[]", "[]"),
    "enum of words": ({"enum": ["1", "2"]}, "1", '"1"'),
    "enum of numbers": ({"enum": [1, 2], "anyOf": [{"type": "integer"}]}, "1", "1"),
    "reference": ({"$ref": "#/$defs/some~1one"}, "[1]", "[1]"),
    "reference to nothing": ({"$ref": "#/$defs/none/at/all"}, "[1]", '"[1]"'),
    "reference elsewhere": ({"$ref": "https://schemas.example/a"}, "[1]", '"[1]"'),
    "reference in a circle": ({"$ref": "#/$defs/a"}, "[1]", '"[1]"'),
    "nested too deeply": ({"type": "array"}, "[" * 100_000, '"' + "[" * 100_000 + '"'),
}


@pytest.mark.parametrize("name", VALUES)
def test_value(name):
    schema, text, result = VALUES[name]
    root = {
        "properties": {} if schema is None else {"key": schema},
        "$defs": {"some/one": {"type": "array"}, **CYCLE["$defs"]},
    }
    assert json_of_text(text, root, "key") == result


class Watched(dict):
    """A part of a schema that counts how often it is looked at."""

    looks = 0

    def get(self, *key):
        Watched.looks += 1
        return super().get(*key)


def test_a_schema_that_refers_to_itself_again_and_again_is_looked_at_once():
    Watched.looks = 0
    key = Watched(anyOf=[Watched({"$ref": "#/properties/key"}) for _ in range(1000)])
    assert json_of_text("7", Watched(properties=Watched(key=key)), "key") == '"7"'
    assert Watched.looks < 2000


def test_the_nearest_way_to_a_part_counts():
    far = {"anyOf": [{"anyOf": [{"$ref": "#/$defs/far"}]}, {"$ref": "#/$defs/far"}]}
    deep = {"$ref": "#/$defs/d0"}
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(4)} | {"d4": {"type": "integer"}}
    assert json_of_text("7", {"properties": {"key": far}, "$defs": {"far": deep, **chain}}, "key") == "7"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["string", "null", "#/properties/key", "object"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "anyOf", "$ref", "enum", "properties", "key"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["properties", "type"]), ANYTHING), st.text(max_size=5))
def test_any_schema_is_taken(schema, text):
    assert json_of_text(text, schema, "key") in {json_or_string(text.strip(), text), json_or_string("", text)}
