"""The format of the answer: the decision table, row by row."""

from __future__ import annotations

from typing import Any, Final

import pytest

from svir_proxy.expectation import Expectation
from svir_proxy.request.instructions import json_instruction
from tests.request.support import GONE, Outcome, ask, outcome, user

FACTS = ("kept", "unknown", "ignored", "rejected")
ANY: Final = {"type": "object"}
SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
OBJECT: Final = {"type": "json_object"}
DESCRIBED: Final = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
AS_SCHEMA: Final = {"type": "json_schema", "json_schema": {"name": "object", "schema": ANY}}
SENT = Outcome({}, [])


def _demand(form: str, schema: dict[str, Any], **changes: Any) -> Outcome:
    fact = f"response_format.{form}"
    messages = [{"role": "system", "content": json_instruction(schema)}, user()]
    return Outcome({"messages": messages, **changes}, [f"{fact}=instructed"], Expectation(fact, schema=schema))


@pytest.mark.parametrize("schemas", FACTS)
@pytest.mark.parametrize("fact", FACTS)
def test_any_object(fact: str, schemas: str) -> None:
    facts = {"response_format.json_object": fact, "response_format.json_schema": schemas}
    if fact in ("kept", "unknown"):
        expected = SENT
    elif fact == "ignored":
        expected = _demand("json_object", ANY)
    elif schemas == "kept":
        expected = Outcome({"response_format": AS_SCHEMA}, ["response_format.json_object=schema"])
    else:
        expected = _demand("json_object", ANY, response_format=GONE)
    assert outcome(ask(response_format=OBJECT), facts) == expected


@pytest.mark.parametrize("fact", FACTS)
def test_a_schema(fact: str) -> None:
    expected = {
        "kept": SENT,
        "unknown": SENT,
        "ignored": _demand("json_schema", SCHEMA),
        "rejected": _demand("json_schema", SCHEMA, response_format=GONE),
    }[fact]
    assert outcome(ask(response_format=DESCRIBED), {"response_format.json_schema": fact}) == expected


@pytest.mark.parametrize("described", [None, {}, {"schema": 5}, 5])
def test_a_schema_that_is_none_demands_an_object(described: Any) -> None:
    body = ask(response_format={"type": "json_schema", "json_schema": described})
    assert outcome(body, {"response_format.json_schema": "ignored"}) == _demand("json_schema", ANY)


@pytest.mark.parametrize("effort", [{}, {"reasoning_effort": "high"}, {"reasoning_effort": "none"}])
@pytest.mark.parametrize("wanted", [OBJECT, DESCRIBED])
def test_a_schema_that_would_bind_the_reasoning_too(wanted: dict[str, Any], effort: dict[str, str]) -> None:
    facts = {"response_format.json_object": "rejected", "response_format.schema_binds_reasoning": True}
    result = outcome(ask(response_format=wanted, **effort), facts)
    told = [] if effort == {"reasoning_effort": "none"} else ["reasoning_effort=none"]
    assert result.changes.get("reasoning_effort", effort.get("reasoning_effort")) == "none"
    assert [note for note in result.notes if note.startswith("reasoning")] == told


@pytest.mark.parametrize(
    ("messages", "added"),
    [
        ([user()], True),
        ([user("Answer as json.")], False),
        ([{"role": "system", "content": [{"type": "text", "text": "JSON!"}]}, user()], False),
        ([user(["JSON"])], False),
        ([user(5), user({"text": "json"}), user([5, {"text": 5}])], True),
    ],
)
def test_the_word_that_some_servers_want_to_read(messages: list[dict[str, Any]], added: bool) -> None:
    result = outcome(ask(*messages, response_format=OBJECT), {"response_format.json_object_needs_word": True})
    added_message = [{"role": "system", "content": "Answer in JSON."}, *messages]
    told = Outcome({"messages": added_message}, ["response_format.json_object=word_added"])
    assert result == (told if added else SENT)


@pytest.mark.parametrize(
    "wanted", [{"type": "text"}, {"type": "xml"}, {"type": ["json_object"]}, {}, "json_object", 5, []]
)
def test_what_the_server_has_to_judge(wanted: Any) -> None:
    facts = {"response_format.json_object": "rejected", "response_format.json_schema": "rejected"}
    assert outcome(ask(response_format=wanted), facts) == SENT


def test_a_demanded_call_comes_before_a_demanded_format() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    facts = {"tool_choice.required": "ignored", "response_format.json_object": "ignored"}
    result = outcome(ask(tools=[tool], tool_choice="required", response_format=OBJECT), facts)
    assert result.expectation == Expectation("tool_choice.required", calls=frozenset("f"))
    assert result.notes == ["tool_choice.required=instructed", "response_format.json_object=instructed"]
