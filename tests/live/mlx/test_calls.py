"""Tool calls of a real MLX server, which ignores ``tool_choice`` or only mentions it to the model: the proxy keeps it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import openai
import pytest

from tests.live.answers import TOOLS, ask, prompt
from tests.live.processes import proxy_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.live.mlx.conftest import ProxyOf
    from tests.live.mlx.servers import MLXServer

pytestmark = pytest.mark.live

lm_only = pytest.mark.lm_only
"""When asked once more, mlx-vlm is asked for the call as JSON of a schema, to which it holds the model."""
both_ways = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])

LOCKER = ("open_locker", {"id": 7})
WEATHER = ("get_weather", {"city": "Tromsø", "days": 3})


def _named(name: str) -> Any:
    return {"type": "function", "function": {"name": name}}


def _chat_requests(server: MLXServer) -> int:
    return server.requests().count("POST /v1/chat/completions")


@both_ways
@pytest.mark.parametrize(
    ("script", "tool_choice", "content", "calls", "finish_reason", "asked"),
    [
        ("default", "auto", "Hello! How can I help you today?", [], "stop", 1),
        ("call", "auto", "", [LOCKER], "tool_calls", 1),
        ("think-call", "auto", "", [LOCKER], "tool_calls", 1),
        ("two-calls", "auto", "I will do both.", [LOCKER, WEATHER], "tool_calls", 1),
        ("call", "required", "", [LOCKER], "tool_calls", 1),
        ("late-call-in-json", "required", "", [LOCKER], "tool_calls", 2),
        pytest.param("late-call", "required", "", [LOCKER], "tool_calls", 2, marks=lm_only),
        pytest.param("no-call", "required", "No, I will not.", [], "stop", 2, marks=lm_only),
        ("call", _named("open_locker"), "", [LOCKER], "stop", 1),
        ("late-call-in-json", _named("open_locker"), "", [LOCKER], "stop", 2),
        pytest.param("late-call", _named("open_locker"), "", [LOCKER], "stop", 2, marks=lm_only),
        pytest.param("wrong-call", _named("get_weather"), "", [WEATHER], "stop", 2, marks=lm_only),
        ("default", "none", "Hello! How can I help you today?", [], "stop", 1),
    ],
)
def test_calls(  # noqa: PLR0917 -- the table's columns
    client: openai.OpenAI,
    server: MLXServer,
    script: str,
    tool_choice: Any,
    content: str,
    calls: list[tuple[str, Any]],
    finish_reason: str,
    asked: int,
    *,
    streamed: bool,
) -> None:
    before = _chat_requests(server)
    answer = ask(client, script, streamed=streamed, tools=TOOLS, tool_choice=tool_choice)
    assert _chat_requests(server) - before == asked
    assert [(name, json.loads(arguments)) for name, arguments in answer.calls] == calls
    assert (answer.content.strip(), answer.finish_reason) == (content, finish_reason)
    assert all(answer.ids)
    assert len(set(answer.ids)) == len(calls)


@pytest.mark.parametrize(
    ("tool_choice", "offered"),
    [
        ("auto", {"open_locker", "get_weather"}),
        ("required", {"open_locker", "get_weather"}),
        (_named("open_locker"), {"open_locker"}),
        ("none", set()),
    ],
)
def test_the_model_sees_the_tools_it_may_call(
    client: openai.OpenAI, server: MLXServer, tool_choice: Any, offered: set[str]
) -> None:
    ask(client, "call", streamed=False, tools=TOOLS, tool_choice=tool_choice)
    prompt = server.prompt()
    assert {name for name in ("open_locker", "get_weather") if name in prompt} == offered
    assert ("You must now call" in prompt) == (tool_choice not in ("auto", "none"))


@lm_only
@both_ways
def test_an_unmet_demand_is_told(client: openai.OpenAI, *, streamed: bool) -> None:
    response = client.chat.completions.with_raw_response.create(
        model="scripted", messages=prompt("no-call"), tools=TOOLS, tool_choice="required", stream=streamed
    )
    told = response.headers["x-svir-rewrites"].split(", ")
    assert [note for note in told if note.startswith("tool_choice")] == [
        "tool_choice.required=instructed",
        "tool_choice.required=asked_again",
        "tool_choice.required=unmet",
    ]


@lm_only
def test_an_unmet_demand_is_logged(server: MLXServer, tmp_path: Path) -> None:
    config = tmp_path / "svir.yaml"
    config.write_text(f"backends: [{{name: mlx, base_url: '{server.url}', profile: mlx-lm}}]", encoding="utf-8")
    with proxy_server(config) as proxy, openai.OpenAI(base_url=proxy.url, api_key="none", max_retries=0) as client:
        ask(client, "no-call", model=server.model, streamed=True, tools=TOOLS, tool_choice="required")
        assert "tool_choice.required=unmet" in proxy.wait_for(r"POST /chat/completions 200 .* rewrites='([^']*)'")[1]


@lm_only
@both_ways
def test_an_unmet_demand_of_a_strict_backend(server: MLXServer, proxy_of: ProxyOf, *, streamed: bool) -> None:
    with proxy_of(server, strict=True) as client:
        assert ask(client, "late-call", streamed=streamed, tools=TOOLS, tool_choice="required").calls
        with pytest.raises(openai.BadRequestError, match="no function was called") as caught:
            ask(client, "no-call", streamed=streamed, tools=TOOLS, tool_choice="required")
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "tool_choice")
