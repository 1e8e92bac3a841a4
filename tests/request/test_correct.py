"""The one corrective repeat."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest

from svir_proxy.expectation import Expectation
from svir_proxy.request.correct import call_schema, correct
from svir_proxy.request.instructions import call_instruction, correction, json_instruction
from tests.request.support import ask, client, function, profile, user

SCHEMA = {"type": "object", "required": ["a"]}
TOOLS = {"tools": [function("f"), function("g"), function("h")], "tool_choice": "auto", "parallel_tool_calls": False}
CALLS = Expectation("tool_choice.required", calls=frozenset({"g", "f"}))
JSON = Expectation("response_format.json_schema", schema=SCHEMA)


def _repeat(expectation: Expectation, facts: dict[str, Any], *, said: str = "Hello", **fields: Any) -> dict[str, Any]:
    body = ask(user("Go"), **fields)
    before = copy.deepcopy(body)
    served = profile({"response_format.json_schema": "unknown", **facts})
    again = correct(body, expectation, client(body), served, problem="it is wrong", said=said)
    assert body == before
    return dict(again)


@pytest.mark.parametrize(("expectation", "instruction"), [
    (CALLS, call_instruction(["f", "g"])),
    (JSON, json_instruction(SCHEMA)),
    (Expectation("response_format.json_object", schema={}), json_instruction({})),
])  # fmt: skip
def test_what_was_said_and_what_is_wrong_with_it(expectation: Expectation, instruction: str) -> None:
    asked = user(correction("it is wrong", instruction))
    said = {"role": "assistant", "content": "Hello"}
    assert _repeat(expectation, {}, **TOOLS) == ask(user("Go"), said, asked, **TOOLS)
    assert _repeat(expectation, {}, said=" \n", **TOOLS) == ask(user("Go"), asked, **TOOLS)


@pytest.mark.parametrize("fact", ["ignored", "rejected"])
def test_no_two_messages_of_the_user_where_they_are_not_taken(fact: str) -> None:
    asked = correction("it is wrong", json_instruction(SCHEMA))
    assert _repeat(JSON, {"consecutive_roles": fact}, said="") == ask(user(f"Go\n\n{asked}"))


def test_a_call_is_asked_for_as_json_where_schemas_are_kept() -> None:
    again = _repeat(CALLS, {"response_format.json_schema": "kept"}, **TOOLS)
    assert set(again) == {"model", "messages", "response_format"}
    described = again["response_format"]["json_schema"]
    assert described["strict"] is True
    valid = jsonschema.Draft202012Validator(described["schema"]).is_valid
    assert valid({"name": "f", "arguments": {"at": "x"}})
    assert valid({"name": "g", "arguments": {}})
    assert not valid({"name": "h", "arguments": {}})
    assert not valid({"name": "f", "arguments": {"at": 5}})
    assert not valid({"name": "f"})


def test_reasoning_is_off_where_the_schema_would_bind_it() -> None:
    facts = {"response_format.json_schema": "kept", "response_format.schema_binds_reasoning": True}
    assert _repeat(CALLS, facts, **TOOLS)["reasoning_effort"] == "none"


def test_a_format_that_is_demanded_beside_the_call_stays() -> None:
    wanted = {"type": "json_object"}
    again = _repeat(CALLS, {"response_format.json_schema": "kept"}, response_format=wanted, **TOOLS)
    assert (again["response_format"], again["tools"]) == (wanted, TOOLS["tools"])


def test_the_schema_of_one_call_needs_no_choice() -> None:
    schema = call_schema({"f": {}})
    assert schema["properties"] == {"name": {"const": "f"}, "arguments": {"type": "object"}}
    assert [form["properties"]["name"]["const"] for form in call_schema({"g": {}, "f": {}})["anyOf"]] == ["f", "g"]
