"""Structured output of a real llama.cpp: the schema reaches its grammar, and the answer fits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pydantic import BaseModel

from tests.live.answers import ask, prompt

if TYPE_CHECKING:
    import openai

pytestmark = pytest.mark.live


class Trip(BaseModel):
    city: str
    days: int


class Locker(BaseModel):
    open: Literal[True]


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": model.model_json_schema()}}


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])
@pytest.mark.parametrize(
    ("script", "response_format", "parsed"),
    [
        ("json", {"type": "json_object"}, {"city": "Oslo", "days": 3}),
        ("json", _schema(Trip), {"city": "Oslo", "days": 3}),
        ("default", _schema(Locker), {"open": True}),  # the script is prose: the grammar alone makes this
    ],
)
def test_json(
    client: openai.OpenAI, script: str, response_format: dict[str, Any], parsed: dict[str, Any], *, streamed: bool
) -> None:
    answer = ask(client, script, streamed=streamed, response_format=response_format, temperature=0, max_tokens=300)
    assert json.loads(answer.content) == parsed


def test_parse(client: openai.OpenAI) -> None:
    completion = client.chat.completions.parse(model="scripted", messages=prompt("json"), response_format=Trip)
    assert completion.choices[0].message.parsed == Trip(city="Oslo", days=3)


def test_parse_of_a_stream(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="scripted", messages=prompt("json"), response_format=Trip) as stream:
        completion = stream.get_final_completion()
    assert completion.choices[0].message.parsed == Trip(city="Oslo", days=3)
