"""What a server demands back with a call is kept for the next turn, within bounds."""

from __future__ import annotations

import json
from typing import Any

import httpx

from svir_proxy.server.call_memory import CallMemory
from tests.server.support import CHAT, serving, settings

SIGNED = {"google": {"thought_signature": "EjQK"}}


def history(*identities: str) -> dict[str, Any]:
    calls = [
        {"id": identity, "type": "function", "function": {"name": "f", "arguments": "{}"}} for identity in identities
    ]
    return {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": calls}]}


def extras(body: Any) -> list[Any]:
    return [call.get("extra_content") for call in body["messages"][1]["tool_calls"]]


def test_extras_go_back_to_the_backend_they_came_from() -> None:
    memory = CallMemory()
    memory.keep("gemini", {"c1": SIGNED})
    body = history("c1", "c2")
    assert extras(memory.restore("gemini", body)) == [SIGNED, None]
    assert extras(body) == [None, None]
    assert memory.restore("other", body) is body


def test_what_the_client_kept_itself_stays() -> None:
    memory = CallMemory()
    memory.keep("gemini", {"c1": SIGNED})
    body = history("c1")
    body["messages"][1]["tool_calls"][0]["extra_content"] = "own"
    assert memory.restore("gemini", body) is body


def test_memory_is_bounded_in_number_and_size() -> None:
    memory = CallMemory()
    memory.keep("b", {f"c{number}": number for number in range(10_001)})
    assert extras(memory.restore("b", history("c0", "c1"))) == [None, 1]
    memory.keep("b", {"long": "x" * 70_000})
    body = history("long")
    assert memory.restore("b", body) is body


def test_memory_is_bounded_in_all() -> None:
    memory = CallMemory()
    for number in range(1000):
        memory.keep("b", {f"c{number % 700}": "x" * 60_000})
    kept = [extra for extra in extras(memory.restore("b", history(*(f"c{number}" for number in range(700))))) if extra]
    assert 30 << 20 < sum(map(len, kept)) < 32 << 20


def test_what_is_nested_too_deeply_to_be_sent_back_is_not_kept() -> None:
    memory = CallMemory()
    memory.keep("b", {"deep": json.loads("[" * 900 + "]" * 900), "c1": 1})
    assert extras(memory.restore("b", history("deep", "c1"))) == [None, 1]


async def test_a_signature_comes_back_on_the_next_turn() -> None:
    asked: list[Any] = []
    call = {
        "extra_content": SIGNED,
        "id": "fc1",
        "type": "function",
        "function": {"name": "f", "arguments": "{}"},
    }

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        return httpx.Response(200, json={"id": "a", "model": "m", "choices": [choice]})

    tools = [{"type": "function", "function": {"name": "f"}}]
    async with serving(settings(), answer) as client:
        first = await client.post("/v1/chat/completions", json=CHAT | {"tools": tools})
        (got,) = first.json()["choices"][0]["message"]["tool_calls"]
        assert "extra_content" not in got
        second = await client.post("/v1/chat/completions", json=history(got["id"]) | {"model": "m", "tools": tools})
    assert extras(asked[1]) == [SIGNED]
    assert "history.extra_content=restored" in second.headers["x-svir-rewrites"]
