"""Structured output: mlx-lm ignores ``response_format``, so the model is told, and its answer checked and cleaned.

mlx-vlm holds the model to it itself.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import openai
import pytest
from pydantic import BaseModel

from tests.live.answers import ask, prompt

if TYPE_CHECKING:
    from tests.live.mlx.conftest import ProxyOf
    from tests.live.mlx.servers import MLXServer

pytestmark = pytest.mark.live

lm_only = pytest.mark.lm_only

both_ways = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])


class Trip(BaseModel):
    city: str
    days: int


OBJECT: Any = {"type": "json_object"}
SCHEMA: Any = {"type": "json_schema", "json_schema": {"name": "trip", "schema": Trip.model_json_schema()}}
both_formats = pytest.mark.parametrize("response_format", [OBJECT, SCHEMA], ids=["object", "schema"])


@both_ways
@both_formats
@pytest.mark.parametrize(
    ("script", "reasoning"),
    [
        ("json", ""),
        pytest.param("think-json", "They want JSON.", marks=lm_only),
        pytest.param("fenced-json", "", marks=lm_only),
        pytest.param("late-json", "", marks=lm_only),
    ],
)
def test_json(client: openai.OpenAI, script: str, reasoning: str, response_format: Any, *, streamed: bool) -> None:
    answer = ask(client, script, streamed=streamed, response_format=response_format)
    assert json.loads(answer.content) == {"city": "Oslo", "days": 3}
    assert (answer.reasoning.strip(), answer.finish_reason) == (reasoning, "stop")


@lm_only
@both_ways
def test_json_that_does_not_match(client: openai.OpenAI, server: MLXServer, *, streamed: bool) -> None:
    wanted = ask(client, "unfit-json", streamed=streamed, response_format=SCHEMA)
    assert Trip.model_validate_json(wanted.content) == Trip(city="Oslo", days=3)
    assert "/days: 'three' is not of type 'integer'" in server.prompt()
    any_object = ask(client, "unfit-json", streamed=streamed, response_format=OBJECT)
    assert json.loads(any_object.content) == {"city": "Oslo", "days": "three"}


@lm_only
def test_the_model_is_told_the_schema(client: openai.OpenAI, server: MLXServer) -> None:
    ask(client, "json", streamed=False, response_format=SCHEMA)
    assert json.dumps(Trip.model_json_schema(), separators=(",", ":")) in server.prompt()


def test_parse(client: openai.OpenAI) -> None:
    completion = client.chat.completions.parse(model="scripted", messages=prompt("json"), response_format=Trip)
    assert completion.choices[0].message.parsed == Trip(city="Oslo", days=3)


@lm_only
@both_ways
@both_formats
def test_an_unmet_format(
    client: openai.OpenAI, server: MLXServer, proxy_of: ProxyOf, response_format: Any, *, streamed: bool
) -> None:
    request: dict[str, Any] = {
        "model": "scripted", "messages": prompt("no-json"), "response_format": response_format, "stream": streamed
    }  # fmt: skip
    response = client.chat.completions.with_raw_response.create(**request)
    assert f"response_format.{response_format['type']}=unmet" in response.headers["x-svir-rewrites"].split(", ")
    with proxy_of(server, strict=True) as strict, pytest.raises(openai.BadRequestError, match="not JSON") as caught:
        strict.chat.completions.create(**request)
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "response_format")
