"""What is asked upstream for one request: with what a rejection taught, and until a demand is met."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from svir_proxy.server import chat, upstream
from tests.server.support import CHAT, serving, settings

SSE = {"content-type": "text/event-stream"}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"id": {}}}}}
    for name in ("look", "wait")
]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
DEMANDED_CALL = CHAT | {"tools": TOOLS, "tool_choice": "required"}
DEMANDED_JSON = CHAT | {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}
IGNORES = {
    "tool_choice": {"required": "ignored", "named": "ignored"},
    "response_format": {"json_object": "ignored", "json_schema": "ignored"},
}


def said(content: str, reason: str = "stop", **delta: Any) -> bytes:
    chunks = [{"content": content, **delta}, {}]
    events = [
        {
            "id": "c",
            "model": "m",
            "choices": [{"index": 0, "delta": part, "finish_reason": reason if not part else None}],
        }
        for part in chunks
    ]
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"


def called(name: str) -> bytes:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": '{"id": 1}'}}
    return said("", "tool_calls", tool_calls=[call])


class Upstream:
    """Gives its answers in order, the last one again and again, and keeps what it was asked."""

    def __init__(self, *answers: bytes | httpx.Response) -> None:
        self._answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(json.loads(request.content))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, httpx.Response):
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)
        return httpx.Response(200, headers=SSE, content=answer)


async def ask(
    upstream: Callable[[httpx.Request], httpx.Response], body: dict[str, Any], facts: dict[str, Any], **backend: Any
) -> httpx.Response:
    configured = settings(backend={"overrides": {"request": facts}, **backend})
    async with serving(configured, upstream) as client:
        return await client.post("/v1/chat/completions", json=body)


def rewrites(response: httpx.Response) -> list[str]:
    return response.headers.get("x-svir-rewrites", "").split(", ")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("body", "answers", "times", "unmet", "text"),
    [
        pytest.param(DEMANDED_CALL, [called("look")], 1, False, "look", id="called at once"),
        pytest.param(DEMANDED_CALL, [said("Hello!"), called("wait")], 2, False, "wait", id="called when asked again"),
        pytest.param(DEMANDED_CALL, [said("Hello!"), said("No.")], 2, True, "No.", id="never called"),
        pytest.param(DEMANDED_CALL, [said("Hel", "length"), called("wait")], 2, False, "wait", id="too long a text"),
        pytest.param(DEMANDED_JSON, [said('{"a', "length")], 1, True, '{"a', id="JSON that is cut"),
        pytest.param(DEMANDED_CALL, [said("Hello!"), httpx.Response(500)], 2, True, "Hello!", id="the repeat fails"),
        pytest.param(DEMANDED_JSON, [said('{"a": 1}')], 1, False, '{"a": 1}', id="JSON at once"),
        pytest.param(DEMANDED_JSON, [said('```json\n{"a": 1}\n```')], 1, False, '{"a": 1}', id="JSON in a fence"),
        pytest.param(DEMANDED_JSON, [said('Sure: {"a": 1}')], 1, False, '{"a": 1}', id="JSON behind prose"),
        pytest.param(DEMANDED_JSON, [said('{"a": "x"}'), said('{"a": 2}')], 2, False, '{"a": 2}', id="another type"),
        pytest.param(
            DEMANDED_JSON, [said("A table."), said("Still a table.")], 2, True, "Still a table.", id="no JSON"
        ),
        pytest.param(
            CHAT | {"response_format": {"type": "json_object"}}, [said("[1]"), said("{}")], 2, False, "{}", id="a list"
        ),
    ],
)
async def test_a_demand_is_met_or_told(
    body: dict[str, Any], answers: list[Any], *, times: int, unmet: bool, text: str, stream: bool
) -> None:
    upstream = Upstream(*answers)
    response = await ask(upstream, body | {"stream": stream}, IGNORES)
    assert response.status_code == 200
    assert text in response.text.replace('\\"', '"')
    assert len(upstream.asked) == times
    assert any(note.endswith("=unmet") for note in rewrites(response)) is unmet
    assert any(note.endswith("=asked_again") for note in rewrites(response)) is (times > 1)


async def test_the_repeat_says_what_was_wrong() -> None:
    upstream = Upstream(said('{"a": "x"}'), said('{"a": 2}'))
    await ask(upstream, DEMANDED_JSON, IGNORES)
    *_, answer, correction = upstream.asked[1]["messages"]
    assert answer == {"role": "assistant", "content": '{"a": "x"}'}
    assert correction["role"] == "user"
    assert "at /a: 'x' is not of type 'integer'" in correction["content"]


async def test_the_repeat_is_held_to_a_schema_where_the_server_keeps_one() -> None:
    facts = {"tool_choice": {"required": "ignored"}, "response_format": {"json_schema": "kept"}}
    upstream = Upstream(said("Hello!"), said('{"name": "look", "arguments": {"id": 7}}'))
    response = await ask(upstream, DEMANDED_CALL, facts)
    forms = upstream.asked[1]["response_format"]["json_schema"]["schema"]["anyOf"]
    assert [form["properties"]["name"]["const"] for form in forms] == ["look", "wait"]
    assert "tools" not in upstream.asked[1]
    (choice,) = response.json()["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"id": 7}'}


async def test_a_named_call_is_of_that_function_and_finishes_with_stop() -> None:
    upstream = Upstream(called("look"))
    choice = {"type": "function", "function": {"name": "look"}}
    response = await ask(upstream, CHAT | {"tools": TOOLS, "tool_choice": choice}, IGNORES)
    assert [tool["function"]["name"] for tool in upstream.asked[0]["tools"]] == ["look"]
    assert response.json()["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("body", [DEMANDED_CALL, DEMANDED_JSON])
async def test_a_strict_backend_refuses_what_was_not_met(body: dict[str, Any]) -> None:
    response = await ask(Upstream(said("No.")), body, IGNORES, strict=True)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "unsupported_parameter")
    assert error["param"] in ("tool_choice", "response_format")


async def test_held_output_is_none_so_that_a_failure_keeps_its_status() -> None:
    cut = said("Hel").partition(b"\n\n")[0] + b"\n\n"
    response = await ask(Upstream(cut), DEMANDED_CALL | {"stream": True}, IGNORES)
    assert (response.status_code, response.json()["error"]["code"]) == (502, "stream_truncated")


async def test_a_server_that_keeps_the_demand_is_asked_once_and_nothing_is_held() -> None:
    upstream = Upstream(said("Hello!"))
    response = await ask(upstream, DEMANDED_CALL, {"tool_choice": {"required": "kept"}})
    assert len(upstream.asked) == 1
    notes = [note for note in rewrites(response) if note.startswith("tool_choice")]
    assert notes == ["tool_choice.required=unmet"], "it did not keep it after all"


def rejected(message: str, **more: Any) -> httpx.Response:
    return httpx.Response(400, json={"error": {"message": message, **more}})


@pytest.mark.parametrize(
    ("extra", "error", "note", "gone"),
    [
        (
            {"store": False, "user": "u"},
            httpx.Response(
                422,
                json={
                    "detail": [
                        {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}
                        for name in ("store", "user")
                    ]
                },
            ),
            "retry.drop=store",
            lambda body: not body.keys() & {"store", "user"},
        ),
        ({"seed": 1}, rejected("Unknown field", param="seed"), "retry.drop=seed", lambda body: "seed" not in body),
        (
            {"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]},
            rejected("System message must be at the beginning."),
            "retry=late_system",
            lambda body: [message["role"] for message in body["messages"]] == ["system", "user"],
        ),
        (
            {"max_completion_tokens": 5},
            rejected(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
            ),
            "retry=max_tokens_field",
            lambda body: body.get("max_completion_tokens") == 5,
        ),
    ],
)
async def test_a_rejection_teaches_a_fact_that_the_next_request_knows(
    extra: dict[str, Any], error: httpx.Response, note: str, gone: Callable[[dict[str, Any]], bool]
) -> None:
    upstream = Upstream(error, said("Hello!"))
    async with serving(settings(), upstream) as client:
        first = await client.post("/v1/chat/completions", json=CHAT | extra)
        second = await client.post("/v1/chat/completions", json=CHAT | extra)
    assert (first.status_code, second.status_code) == (200, 200)
    assert note in rewrites(first)
    assert note not in rewrites(second)
    assert len(upstream.asked) == 3
    assert all(map(gone, upstream.asked[1:]))


@pytest.mark.parametrize(
    "error",
    [
        rejected("This model's maximum context length is 8 tokens."),
        rejected("temperature must be in [0, 2], got 5.0.", param="temperature"),
        httpx.Response(401, json={"error": "Unauthorized"}),
        httpx.Response(500, json={"error": "crashed"}),
        httpx.Response(429, json={"error": "slow down"}),
    ],
)
async def test_an_error_about_something_else_is_not_asked_again(error: httpx.Response) -> None:
    upstream = Upstream(error)
    response = await ask(upstream, CHAT | {"seed": 1, "temperature": 5}, {})
    assert len(upstream.asked) == 1
    assert response.status_code >= 400


async def test_what_did_not_help_is_not_learned() -> None:
    upstream = Upstream(rejected("Unknown field", param="seed"))
    async with serving(settings(), upstream) as client:
        for _ in range(2):
            await client.post("/v1/chat/completions", json=CHAT | {"seed": 1})
    assert ["seed" in body for body in upstream.asked] == [True, False, True, False]


async def test_a_demand_that_a_rejection_brought_about_is_seen_to() -> None:
    upstream = Upstream(
        rejected("Invalid tool_choice: required. Supported string values: none, auto", param="tool_choice"),
        said("Hello!"),
        called("look"),
    )
    async with serving(settings(), upstream) as client:
        response = await client.post("/v1/chat/completions", json=DEMANDED_CALL)
    assert response.json()["choices"][0]["finish_reason"] == "tool_calls"
    assert len(upstream.asked) == 3  # refused, answered in prose, called
    assert "tool_choice.required=asked_again" in rewrites(response)


@pytest.mark.parametrize(
    ("body", "answer"), [(CHAT, "WholeAnswer"), (CHAT | {"stream": True}, "StreamedAnswer")], ids=["whole", "stream"]
)
async def test_what_an_answer_needs_is_made_while_the_server_is_at_work(
    body: dict[str, Any], answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def noting(what: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def note(*given: Any, **named: Any) -> Any:
            made.append(what)
            return make(*given, **named)

        return note

    monkeypatch.setattr(upstream.Upstream, "chat", noting("request", upstream.Upstream.chat))
    monkeypatch.setattr(chat, answer, noting("answer", getattr(chat, answer)))
    async with serving(settings(), Upstream(said("Hello!"))) as client:
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
    assert made == ["request", "answer"]
