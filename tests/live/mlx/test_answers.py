"""Text, reasoning, usage and models of a real MLX server, as the SDK sees them through the proxy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.live.answers import TOOLS, ask, check_wire, prompt
from tests.live.mlx.scripts import HELLO, SCRIPTS

if TYPE_CHECKING:
    import openai

    from tests.live.answers import Answer
    from tests.live.mlx.servers import MLXServer

pytestmark = [pytest.mark.live, pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])]


@pytest.mark.parametrize("script", ["default", "emoji"])
def test_text(client: openai.OpenAI, script: str, *, streamed: bool) -> None:
    answer = ask(client, script, streamed=streamed)
    assert (answer.content,) == SCRIPTS[script].texts
    assert (answer.reasoning, answer.calls, answer.finish_reason) == ("", [], "stop")


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_length(client: openai.OpenAI, field: str, *, streamed: bool) -> None:
    answer = ask(client, "endless", streamed=streamed, **{field: 19})
    assert (answer.content, answer.finish_reason) == ("round and round the", "length")


def test_usage(client: openai.OpenAI, *, streamed: bool) -> None:
    fields = {"stream_options": {"include_usage": True}} if streamed else {}
    (usage,) = ask(client, "default", streamed=streamed, **fields).usage
    assert usage.prompt_tokens > 0
    assert usage.completion_tokens == len(HELLO) + 1  # the end of the turn
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


@pytest.mark.parametrize("opened", [False, True], ids=["by the model", "by the template"])
def test_reasoning(client: openai.OpenAI, kind: str, *, opened: bool, streamed: bool) -> None:
    if opened and kind == "mlx-vlm":
        pytest.skip("mlx-vlm gives the template no options of the request")
    fields = {"extra_body": {"chat_template_kwargs": {"opens_thinking": opened}}}
    answer = ask(client, "think", streamed=streamed, **fields)
    assert answer.reasoning.strip() == "The user asks for a color. Blue fits."
    assert answer.content.strip() == "Blue."


def test_reasoning_over_two_turns(client: openai.OpenAI, server: MLXServer, *, streamed: bool) -> None:
    asked = prompt("think-call")
    first = ask(client, "", messages=asked, tools=TOOLS, streamed=streamed)
    ((name, arguments),) = first.calls
    call = {"id": first.ids[0], "type": "function", "function": {"name": name, "arguments": arguments}}
    messages = [
        *asked,
        {"role": "assistant", "content": None, "reasoning_content": first.reasoning, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "It is open."},
    ]
    second = ask(client, "", messages=messages, tools=TOOLS, streamed=streamed)
    assert (second.content, second.calls, second.finish_reason) == ("Locker seven is open now.", [], "stop")
    history = server.prompt().partition("<|im_start|>assistant")[2]
    assert "Locker seven is meant." in history.partition("</think>")[0]
    assert '<tool_call>\n{"name": "open_locker", "arguments": {"id": 7}}' in history


def test_many_at_once(client: openai.OpenAI, *, streamed: bool) -> None:
    def one(script: str) -> Answer:
        return ask(client, script, streamed=streamed)

    names = ["default", "emoji", "json"] * 4
    with ThreadPoolExecutor(len(names)) as pool:
        assert [(answer.content,) for answer in pool.map(one, names)] == [SCRIPTS[name].texts for name in names]


@pytest.mark.parametrize("script", ["default", "emoji", "think", "call", "two-calls", "think-call"])
def test_wire(client: openai.OpenAI, script: str, *, streamed: bool) -> None:
    check_wire(client, script, streamed=streamed)
