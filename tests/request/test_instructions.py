"""What a model is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.request.instructions import add_instruction, call_instruction, correction, json_instruction
from tests.request.support import ask, user


def test_a_call() -> None:
    assert "the function `f`." in call_instruction(["f"])
    assert "one of these functions: `f`, `g`." in call_instruction(["f", "g"])


@pytest.mark.parametrize("schema", [{}, {"type": "object"}])
def test_any_object(schema: dict[str, Any]) -> None:
    assert json_instruction(schema).startswith("Answer with one JSON object")


def test_a_schema_is_told_as_it_is() -> None:
    schema = {"type": "object", "properties": {"straße": {"type": "string"}}}
    told = json_instruction(schema).partition("\n")[2]
    assert json.loads(told) == schema
    assert "straße" in told


def test_a_schema_nested_deeply_is_told_too() -> None:
    schema: dict[str, Any] = {}
    for _ in range(300):
        schema = {"items": schema}
    assert json_instruction(schema).count("items") == 300


def test_a_schema_that_nobody_could_read_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"items": schema}
    with pytest.raises(ProxyError) as caught:
        json_instruction(schema)
    assert (caught.value.kind, caught.value.param) == ("invalid_request", "response_format")


def test_a_correction_names_the_problem_and_the_demand() -> None:
    assert (
        correction("no function was called", "Call it.")
        == "Your last answer does not do: no function was called. Call it."
    )


def _system(content: Any, role: str = "system") -> dict[str, Any]:
    return {"role": role, "content": content, "name": "s"}


@pytest.mark.parametrize(
    ("messages", "becomes"),
    [
        ([user()], [{"role": "system", "content": "X"}, user()]),
        ([_system("a"), user()], [_system("a\n\nX"), user()]),
        ([_system("a", "developer"), user()], [_system("a\n\nX", "developer"), user()]),
        ([_system(""), user()], [_system("X"), user()]),
        ([_system(None), user()], [_system("X"), user()]),
        ([{"role": "system"}, user()], [{"role": "system", "content": "X"}, user()]),
        (
            [_system([{"type": "text", "text": "a"}])],
            [_system([{"type": "text", "text": "a"}, {"type": "text", "text": "X"}])],
        ),
        ([_system({"a": 1})], [{"role": "system", "content": "X"}, _system({"a": 1})]),
        ([user(), _system("late")], [{"role": "system", "content": "X"}, user(), _system("late")]),
    ],
)
def test_an_instruction_goes_to_the_system_message(messages: list[Any], becomes: list[Any]) -> None:
    body = ask(*messages)
    assert add_instruction(body, "X") == ask(*becomes)
    assert body == ask(*messages)
