"""Answers under an operator's rules: nothing is seen before the whole is judged, and then what the rules leave."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any, Final

import httpx
import pytest

from svir_proxy.conform.dialect import check_completion, check_error, check_stream
from svir_proxy.errors import ProxyError
from svir_proxy.patterns import Pattern
from svir_proxy.response.answer_rules import AnswerRule
from svir_proxy.response.events import (
    ContentDelta,
    Ended,
    Failed,
    Finished,
    Identified,
    Noted,
    ReasoningDelta,
    UsageReported,
)
from svir_proxy.server.answer import StreamedAnswer, WholeAnswer
from svir_proxy.server.ruled_answer import RuledAnswer
from svir_proxy.settings import StreamingSettings
from tests.server.conftest import Clock
from tests.server.support import (
    CHAT,
    DONE,
    FINISH,
    LAST_PIECE,
    ROLE,
    STREAM,
    STREAM_HEAD,
    Client,
    Wire,
    chunk,
    client_request,
    deltas,
    event,
    listing,
    piece,
    proxied,
    serving,
    settings,
    text,
)
from tests.server.test_failover import fleet
from tests.server.transport.raw_server import Peer

pytestmark = pytest.mark.usefixtures("leaves_nothing")

BLOCK: Final = {"name": "no-secrets", "pattern": "(?i)secret", "action": "block"}
REDACT: Final = BLOCK | {"action": "redact", "replacement": "###"}
BODIES: Final = pytest.mark.parametrize("body", [CHAT, STREAM], ids=["plain", "stream"])
SSE: Final = {"content-type": "text/event-stream"}
USAGE: Final = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
TOOLS: Final = {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]}


def rules(*answers: Mapping[str, Any]) -> dict[str, Any]:
    return {"answers": list(answers)}


def call(arguments: str) -> bytes:
    function = {"name": "f", "arguments": arguments}
    return chunk({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]})


def usage() -> bytes:
    return event(
        {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": USAGE}
    )


def message(response: httpx.Response, *, stream: bool, usage: bool = False) -> tuple[dict[str, Any], str]:
    """What the client has of an answer, put together, and the finish reason; asserts that it is in the dialect."""
    if not stream:
        assert check_completion(response.content) == []
        choice = response.json()["choices"][0]
        said = {key: value for key, value in choice["message"].items() if value and key != "role"}
        return said, choice["finish_reason"]
    assert check_stream(response.content, usage) == []
    said, reason = {}, ""
    for line in response.text.split("\n\n"):
        if line.startswith("data: {") and (choices := json.loads(line[6:])["choices"]):
            delta = choices[0]["delta"]
            for key in ("content", "reasoning_content", "refusal"):
                if delta.get(key):
                    said[key] = said.get(key, "") + delta[key]
            for piece_ in delta.get("tool_calls", ()):
                calls = said.setdefault("tool_calls", [])
                if "id" in piece_:
                    calls.append(piece_)
                else:
                    calls[-1]["function"]["arguments"] += piece_["function"]["arguments"]
            reason = choices[0]["finish_reason"] or reason
    return said, reason


ANSWERS: Final[dict[str, tuple[bytes, dict[str, Any]]]] = {
    # what the server says, and what is left of it with "###" in place of each match
    "text": (text("a Sec") + text("ret and more") + FINISH, {"content": "a ### and more"}),
    "reasoning": (
        chunk({"reasoning_content": "the sec"}) + chunk({"reasoning_content": "ret"}) + text("ok") + FINISH,
        {"reasoning_content": "the ###", "content": "ok"},
    ),
    "think tags": (
        text("<think>secret</think>ok") + FINISH,
        {"reasoning_content": "###", "content": "ok"},
    ),
    "refusal": (chunk({"refusal": "no secret"}) + FINISH, {"refusal": "no ###"}),
    "call": (
        call('{"a": "a sec') + call('ret"}').replace(b'"name": "f", ', b"") + chunk({}, "tool_calls"),
        {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":"a ###"}'}}]},
    ),
    "a call written as text": (
        text('<tool_call>{"name": "f", "arguments": {"a": "secret"}}</tool_call>') + FINISH,
        {"tool_calls": [{"type": "function", "function": {"name": "f", "arguments": '{"a":"###"}'}}]},
    ),
}


@BODIES
@pytest.mark.parametrize("action", ["block", "redact"])
@pytest.mark.parametrize(("said", "remains"), ANSWERS.values(), ids=ANSWERS)
async def test_the_client_gets_what_the_rules_leave(
    said: bytes, remains: dict[str, Any], action: str, body: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "svir_proxy")
    rule = BLOCK if action == "block" else REDACT
    content = said + usage() + DONE
    configured = settings(rules=rules(rule), logging={"show_prompts": True})
    async with serving(configured, lambda _: httpx.Response(200, headers=SSE, content=content)) as client:
        asked = body | TOOLS | ({"stream_options": {"include_usage": True}} if body is STREAM else {})
        response = await client.post("/v1/chat/completions", json=asked)
    assert response.status_code == 200
    assert "secret" not in (response.text + repr(response.headers)).lower().replace("no-secrets", "")
    found, reason = message(response, stream=body is STREAM, usage=True)
    for one in found.get("tool_calls", ()):
        one.pop("index", None)
        if "id" not in remains.get("tool_calls", [{}])[0]:
            one.pop("id")
    assert (found, reason) == (
        ({}, "content_filter") if action == "block" else (remains, "tool_calls" if "tool_calls" in remains else "stop")
    )
    note = f"rules.no-secrets={'blocked' if action == 'block' else 'redacted'}"
    assert note in response.headers["x-svir-rewrites"], "the header goes out with the burst"
    assert json.dumps(USAGE)[1:-1] in response.text.replace('":', '": ').replace(",", ", "), "the tokens were used"
    lines = "\n".join(json.dumps(record.told) for record in caplog.records if hasattr(record, "told"))
    assert note in lines
    assert "secret" not in lines.lower().replace("no-secrets", "")


@BODIES
async def test_what_no_rule_finds_is_as_the_server_said_it(body: dict[str, Any]) -> None:
    said = text("one") + text(" two") + FINISH + DONE
    responses = []
    for configured in (settings(), settings(rules=rules(BLOCK, REDACT | {"name": "other"}))):
        async with serving(configured, lambda _: httpx.Response(200, headers=SSE, content=said)) as client:
            responses.append(await client.post("/v1/chat/completions", json=body))
    assert responses[0].content == responses[1].content
    assert responses[0].headers.get("x-svir-rewrites") == responses[1].headers.get("x-svir-rewrites")


LOGPROBS: Final = {
    "content": [{"token": t, "logprob": -1.0, "bytes": None, "top_logprobs": []} for t in ("sec", "ret")]
}


@BODIES
@pytest.mark.parametrize("content", ["a secret", "ok"])
async def test_nothing_spells_it_out_beside_the_text(content: str, body: dict[str, Any]) -> None:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": None, "logprobs": LOGPROBS}
    told = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    said = event(told | {"timings": {"of": "a secret"}}) + FINISH + DONE
    configured = settings(rules=rules(REDACT), backend={"expose_extras": True})
    async with serving(configured, lambda _: httpx.Response(200, headers=SSE, content=said)) as client:
        response = await client.post("/v1/chat/completions", json=body | {"logprobs": True})
    assert message(response, stream=body is STREAM)[0] == {"content": content.replace("secret", "###")}
    assert '"sec"' not in response.text
    assert "secret" not in response.text


# ---------------------------------------------------------------- nothing is seen before


async def turns(count: int = 200) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def asked(server: Any, client: Client, body: Any = STREAM) -> Peer:
    await client.ask(body)
    peer: Peer = await server.accept()
    await peer.request()
    return peer


async def test_a_stream_comes_in_one_burst_and_is_kept_alive_meanwhile(clock: Clock) -> None:
    async with proxied(rules=rules(REDACT)) as proxy, proxy.client() as client:
        peer = await asked(proxy.server, client)
        await peer.send(STREAM_HEAD + piece(text("a sec")))
        await turns()
        clock.advance(5.5)
        assert await client.status() == 200
        assert client.headers["x-svir-backend"] == "b0"
        assert deltas(await client.piece()) == [ROLE]
        for _ in range(2):
            await peer.send(piece(text("x")))
            await turns()
            clock.advance(10.5)
            assert await client.piece() == b": keepalive\n\n"
        await peer.send(piece(text(" secret") + FINISH + DONE) + LAST_PIECE)
        rest = await client.rest()
        assert deltas(rest) == [{"content": "a secxx ###"}, "stop", "[DONE]"]


BREAKS: Final = {
    "its own error": (piece(event({"error": {"message": "no more"}})), "upstream_failed", 502),
    "its end": (LAST_PIECE, "stream_truncated", 502),
}


@BODIES
@pytest.mark.parametrize(("end", "code", "status"), BREAKS.values(), ids=BREAKS)
async def test_a_failure_in_the_middle_has_its_status(end: bytes, code: str, status: int, body: dict[str, Any]) -> None:
    async with proxied(rules=rules(REDACT)) as proxy, proxy.client() as client:
        peer = await asked(proxy.server, client, body)
        await peer.send(STREAM_HEAD + piece(text("a secret")) + end)
        assert await client.status() == status
        said = await client.body()
        assert check_error(json.dumps(said).encode()) == []
        assert said["error"]["code"] == code
        assert "secret" not in json.dumps(said)


async def test_a_failure_of_a_stream_that_was_kept_alive_is_its_last_event(clock: Clock) -> None:
    async with proxied(rules=rules(REDACT)) as proxy, proxy.client() as client:
        peer = await asked(proxy.server, client)
        await peer.send(STREAM_HEAD + piece(text("a secret")))
        await turns()
        clock.advance(5.5)
        assert await client.status() == 200
        await peer.send(piece(event({"error": {"message": "cannot parse: a secret"}})))
        rest = await client.rest()
        assert deltas(rest) == [ROLE, "upstream_failed"]
        assert b"cannot parse: a ###" in rest


@BODIES
async def test_an_error_that_quotes_the_answer_does_not_leak_it(
    body: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "svir_proxy")
    words = {"error": {"message": "Failed to parse input at pos 3: a secret", "code": 500}}
    async with serving(settings(rules=rules(BLOCK)), lambda _: httpx.Response(500, json=words)) as client:
        response = await client.post("/v1/chat/completions", json=body)
    assert response.status_code == 502
    assert "withheld" in response.json()["error"]["message"]
    assert "rules.no-secrets=blocked" in response.headers["x-svir-rewrites"]
    told = [record.told for record in caplog.records if hasattr(record, "told")]
    assert "a secret" not in response.text + json.dumps(told)


async def test_an_answer_larger_than_its_limit_is_an_error() -> None:
    configured = settings(rules=rules(BLOCK), limits={"max_answer_bytes": 2000, "max_event_bytes": 1000})
    said = text("x" * 100) * 20 + FINISH + DONE
    async with serving(configured, lambda _: httpx.Response(200, headers=SSE, content=said)) as client:
        response = await client.post("/v1/chat/completions", json=STREAM)
    assert response.status_code == 502
    assert "limits.max_answer_bytes" in response.text


async def test_who_leaves_ends_it() -> None:
    async with proxied(rules=rules(BLOCK)) as proxy, proxy.client() as client:
        peer = await asked(proxy.server, client)
        await peer.send(STREAM_HEAD + piece(text("a")))
        client.leave()
        await peer.gone()


# ---------------------------------------------------------------- beside other things


@BODIES
async def test_another_backend_is_asked_also_in_the_middle(body: dict[str, Any]) -> None:
    async with fleet(2, sections={"rules": rules(REDACT)}) as servers, servers.client() as client:
        await client.ask(body)
        await (await servers.asked(0)).send(STREAM_HEAD + piece(text("half a secret")) + LAST_PIECE)
        await (await servers.asked(1)).send(STREAM_HEAD + piece(text("whole secret") + FINISH + DONE) + LAST_PIECE)
        assert await client.status() == 200
        assert "failover=b0:stream_truncated" in client.headers["x-svir-rewrites"]
        assert "rules.no-secrets=redacted" in client.headers["x-svir-rewrites"]
        said = await (client.rest() if body is STREAM else client.body())
        assert "whole ###" in str(said)
        assert "half" not in str(said)


@BODIES
async def test_a_demand_is_met_first_and_then_judged(body: dict[str, Any]) -> None:
    """The schema binds what the model says: it is asked once more, and the rules judge what came of it."""
    schema = {"type": "object", "required": ["a"]}
    wanted = body | {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}
    answers = iter(['{"b": "secret"}', '```json\n{"a": "\\u0073ecret"}\n```'])
    overrides = {"request": {"response_format": {"json_schema": "ignored"}}}
    configured = settings(rules=rules(REDACT), backend={"overrides": overrides})

    def reply(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=listing("m"))
        return httpx.Response(200, headers=SSE, content=text(next(answers)) + FINISH + DONE)

    async with serving(configured, reply) as client:
        response = await client.post("/v1/chat/completions", json=wanted)
    assert message(response, stream=body is STREAM) == ({"content": '{"a":"###"}'}, "stop")
    assert "asked_again" in response.headers["x-svir-rewrites"]


@pytest.mark.parametrize(
    ("key", "model", "is_ruled"),
    [("sk-kid", "m", True), ("sk-adult", "m", False), ("sk-kid", "free", False), ("sk-kid", "unknown", True)],
)
async def test_a_rule_for_some(key: str, model: str, is_ruled: bool) -> None:
    configured = settings(
        backend={"models": {"m": "m", "free": "f"}, "overrides": {"request": {"model": "any"}}},
        rules=rules(BLOCK | {"keys": ["kid"], "models": ["m"]}),
        auth={"keys": [{"name": "kid", "key": "sk-kid"}, {"name": "adult", "key": "sk-adult"}]},
    )
    said = text("secret") + FINISH + DONE
    async with serving(configured, lambda _: httpx.Response(200, headers=SSE, content=said)) as client:
        headers = {"authorization": f"Bearer {key}"}
        response = await client.post("/v1/chat/completions", json=CHAT | {"model": model}, headers=headers)
        passed = await client.post("/v1/completions", json={"model": model, "prompt": "x"}, headers=headers)
        several = await client.post(
            "/v1/chat/completions", json=CHAT | {"model": model, "models": ["m"]}, headers=headers
        )
        numbers = await client.post("/v1/embeddings", json={"model": model, "input": "x"}, headers=headers)
    assert (response.json()["choices"][0]["finish_reason"] == "content_filter") == is_ruled
    assert (several.json()["choices"][0]["finish_reason"] == "content_filter") == (key == "sk-kid")
    assert passed.status_code == (403 if is_ruled else 200)
    assert not is_ruled or passed.json()["error"]["code"] == "endpoint_not_allowed"
    assert numbers.status_code == 200


# ---------------------------------------------------------------- the answer in front of the answer


def held(*, stream: bool) -> tuple[RuledAnswer, StreamedAnswer | WholeAnswer, Wire]:
    wire = Wire()
    request = client_request(stream=stream)
    answer: StreamedAnswer | WholeAnswer = (
        StreamedAnswer(request, wire.send, list, StreamingSettings()) if stream else WholeAnswer(request)
    )
    return RuledAnswer(answer), answer, wire


@pytest.mark.parametrize("stream", [True, False])
async def test_what_is_held_counts_and_is_not_seen(stream: bool) -> None:
    ruled, answer, wire = held(stream=stream)
    assert (ruled.gathers, ruled.is_timed) == (True, stream)
    ruled.take([Identified("id", 1, "m"), Noted("odd=once")])
    assert not ruled.has_output
    assert answer.notes == ["odd=once"], "a note is none of the model's words"
    ruled.take([ReasoningDelta("a"), ContentDelta("b")])
    ruled.end_source(0.0)
    ruled.take([Finished("stop"), UsageReported(USAGE)])
    assert (ruled.has_output, ruled.has_reasoning, ruled.pieces, ruled.usage) == (True, True, 6, USAGE)
    assert ruled.first_output is not None
    assert ruled.last_output is not None
    assert ruled.first_output <= ruled.last_output
    assert (wire.sent, answer.has_output, ruled.finish_reason) == ([], False, None)
    ruled.take([Ended()])
    await ruled.release([AnswerRule("r", Pattern("b"))], client_request(**CHAT))
    assert answer.has_output
    assert ruled.finish_reason == answer.finish_reason == "content_filter"


async def test_a_restart_forgets_what_was_held() -> None:
    ruled, answer, _ = held(stream=False)
    ruled.take([ContentDelta("a"), UsageReported(USAGE), Failed(ProxyError("upstream_failed", "no"))])
    ruled.restart()
    assert (ruled.has_output, ruled.pieces, ruled.usage, ruled.first_output) == (False, 0, None, None)
    ruled.take([ContentDelta("b"), Finished("stop"), Ended()])
    await ruled.release([], client_request(**CHAT))
    assert isinstance(answer, WholeAnswer)
    assert json.loads(answer.body())["choices"][0]["message"]["content"] == "b"
