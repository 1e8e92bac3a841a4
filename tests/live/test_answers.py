"""Text, reasoning, usage and models of a real llama.cpp, as the SDK sees them through the proxy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.answers import ask, check_wire
from tests.live.scripts import SCRIPTS

if TYPE_CHECKING:
    import openai

    from tests.live.answers import Answer

pytestmark = [pytest.mark.live, pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])]


@pytest.mark.parametrize(
    ("script", "said"), [("default", SCRIPTS["default"]), ("emoji", "Party \U0001f389 and f\u00e9te \u65e5\u672c")]
)
def test_text(client: openai.OpenAI, script: str, said: str, *, streamed: bool) -> None:
    answer = ask(client, script, streamed=streamed)
    assert (answer.content, answer.reasoning, answer.calls, answer.finish_reason) == (said, "", [], "stop")


def test_length(client: openai.OpenAI, *, streamed: bool) -> None:
    answer = ask(client, "loop", streamed=streamed, max_completion_tokens=20)
    assert answer.finish_reason == "length"
    assert answer.content.startswith("round and round the ragged rock")


@pytest.mark.parametrize(
    ("fields", "gap"),
    [
        ({}, ("", "")),  # the server's own parser takes the line feeds around the tags
        ({"extra_body": {"reasoning_format": "none"}}, ("\n", "\n\n")),  # the tags are text: the proxy parts them
        ({"reasoning_effort": "none"}, ("\n", "\n\n")),  # so too when the model thinks although it should not
    ],
    ids=["server", "tags", "effort-none"],
)
@pytest.mark.parametrize(
    ("script", "thought", "said"),
    [
        ("think", "The user asks for a color. Blue fits.\n", "Blue."),
        ("think-split", "Is a<b or </thi here?\n", "Yes: a<b."),
    ],
)
def test_reasoning(  # noqa: PLR0917 -- the table's columns
    client: openai.OpenAI,
    fields: dict[str, Any],
    gap: tuple[str, str],
    script: str,
    thought: str,
    said: str,
    *,
    streamed: bool,
) -> None:
    answer = ask(client, script, streamed=streamed, **fields)
    assert (answer.reasoning, answer.content) == (gap[0] + thought, gap[1] + said)


def test_usage(client: openai.OpenAI, *, streamed: bool) -> None:
    fields = {"stream_options": {"include_usage": True}} if streamed else {}
    (usage,) = ask(client, "default", streamed=streamed, **fields).usage
    assert usage.prompt_tokens > 0
    assert usage.completion_tokens == 11  # ten pieces and the end of the turn
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_more_clients_than_slots(client: openai.OpenAI, *, streamed: bool) -> None:
    def one(script: str) -> Answer:
        return ask(client, script, streamed=streamed)

    names = ["default", "opened", "json"] * 4
    with ThreadPoolExecutor(len(names)) as pool:
        assert [answer.content for answer in pool.map(one, names)] == [SCRIPTS[name] for name in names]


@pytest.mark.parametrize("script", ["default", "emoji", "think-split", "say-call", "think-call", "two-calls"])
def test_wire(client: openai.OpenAI, script: str, *, streamed: bool) -> None:
    check_wire(client, script, streamed=streamed)
