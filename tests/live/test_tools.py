"""Tool calls of a real llama.cpp: its template, its grammar, its parser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.live.answers import TOOLS, ask, prompt

if TYPE_CHECKING:
    import openai

pytestmark = [pytest.mark.live, pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])]

NAMED: Any = {"type": "function", "function": {"name": "get_weather"}}
WEATHER = ("get_weather", '{"city": "Troms\u00f8", "days": 3}')


@pytest.mark.parametrize(
    ("script", "tool_choice", "content", "calls", "finish_reason"),
    [
        ("call", "auto", "", [("open_locker", '{"id": 7}')], "tool_calls"),
        ("call", "required", "", [("open_locker", '{"id": 7}')], "tool_calls"),
        ("say-call", "auto", "I will open it.\n", [("open_locker", '{"id": 12}')], "tool_calls"),
        ("think-call", "auto", "", [("open_locker", '{"id": 9}')], "tool_calls"),
        ("two-calls", "auto", "", [("open_locker", '{"id": 1}'), WEATHER], "tool_calls"),
        # the server takes this form for auto, and would let the model call both
        ("two-calls", NAMED, "", [WEATHER], "stop"),
        # the server lets the model write a call, as text
        ("call", "none", '<tool_call>\n{"name": "open_locker", "arguments": {"id": 7}}\n</tool_call>', [], "stop"),
        ("default", "auto", "Hello! How can I help you today?", [], "stop"),
    ],
)
def test_calls(  # noqa: PLR0917 -- the table's columns
    client: openai.OpenAI,
    script: str,
    tool_choice: Any,
    content: str,
    calls: list[tuple[str, str]],
    finish_reason: str,
    *,
    streamed: bool,
) -> None:
    answer = ask(client, script, streamed=streamed, tools=TOOLS, tool_choice=tool_choice)
    assert (answer.content, answer.calls, answer.finish_reason) == (content, calls, finish_reason)
    assert all(answer.ids)
    assert len(set(answer.ids)) == len(calls)


def test_a_named_function_is_told(client: openai.OpenAI, *, streamed: bool) -> None:
    response = client.chat.completions.with_raw_response.create(
        model="scripted", messages=prompt("two-calls"), tools=TOOLS, tool_choice=NAMED, stream=streamed
    )
    assert "tool_choice.named" in response.headers["x-svir-rewrites"]


def test_thought_before_a_call(client: openai.OpenAI, *, streamed: bool) -> None:
    answer = ask(client, "think-call", streamed=streamed, tools=TOOLS)
    assert answer.reasoning == "Locker nine is meant.\n"


def test_the_result_of_a_call(client: openai.OpenAI, *, streamed: bool) -> None:
    asked = prompt("call")
    first = ask(client, "call", streamed=streamed, tools=TOOLS)
    ((name, arguments),) = first.calls
    call = {"id": first.ids[0], "type": "function", "function": {"name": name, "arguments": arguments}}
    messages = [
        *asked,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "It is open. [[s:opened]]"},
    ]
    second = ask(client, "", streamed=streamed, messages=messages, tools=TOOLS)
    assert (second.content, second.finish_reason) == ("Locker seven is open now.", "stop")


def test_arguments_cut_at_the_limit(client: openai.OpenAI, *, streamed: bool) -> None:
    answer = ask(client, "call", streamed=streamed, tools=TOOLS, max_tokens=17)
    ((name, arguments),) = answer.calls
    assert (name, answer.finish_reason) == ("open_locker", "length")
    assert '{"id": 7}'.startswith(arguments)
    assert arguments != '{"id": 7}'
