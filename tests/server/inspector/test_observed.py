"""What the page is told of requests, from a proxy in front of a server on a real socket."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from svir_proxy.server.inspector.observed import ObservedExchange
from tests.server.inspector.support import viewing
from tests.server.support import ANSWER, CHAT, DONE, LAST_PIECE, STREAM, STREAM_HEAD, chunk, piece, proxied, text, whole
from tests.support.collector import SpanCollector

SECRET: Final = "a-word-nobody-shall-see"


def shown(request: dict[str, Any]) -> list[Any]:
    """The canonical events, in order."""
    return [event for row in request["rows"] for event in row[4]]


@pytest.mark.parametrize("body", [CHAT, STREAM], ids=["plain", "stream"])
async def test_a_request_is_shown_from_end_to_end(body: dict[str, Any]) -> None:
    async with proxied(inspector={"show_prompts": True}) as proxy, viewing(proxy) as page, proxy.client() as client:
        await client.ask(body | {"max_completion_tokens": 7, "stop": None}, user_agent="a-client/1")
        upstream = await proxy.server.accept()
        await upstream.answer(STREAM_HEAD + piece(text("one")))
        await page.until(lambda: any(shown(request) for request in page.requests.values()))
        running = page.requests[1]
        assert not running["summary"]["over"]
        assert running["rows"][0][3].startswith('data: {"id": "c"')
        await upstream.send(piece(text(" two") + chunk({}, "stop") + DONE) + LAST_PIECE)
        assert await client.status() == 200
        request = await page.over(1)
    summary = request["summary"]
    assert (summary["method"], summary["path"], summary["model"], summary["backend"]) == (
        "POST", "/v1/chat/completions", "m", "b0",
    )  # fmt: skip
    assert (summary["status"], summary["finish"], summary["error"], summary["agent"]) == (
        200,
        "stop",
        None,
        "a-client/1",
    )
    assert summary["seen"]
    assert summary["stream"] is bool(body.get("stream"))
    assert shown(request)[1:] == [
        {"content": "one"}, {"content": " two"}, {"finish_reason": "stop"}, {"done": True},
    ]  # fmt: skip
    raw = "\n".join(row[3] for row in request["rows"])
    assert raw.endswith("data: [DONE]")
    [attempt] = request["attempts"]
    times = [attempt[name] for name in ("began", "asked", "head", "first_byte", "first_output", "last_output", "ended")]
    assert times == sorted(times)
    assert attempt["status"] == 200
    changes = request["changes"]["0"]
    marked = [(mark, line.partition(":")[0]) for mark, _, line in changes["lines"] if mark != " "]
    assert ("-", '"stop"') in marked
    assert {"nulls=stop"} <= {reason["note"] for reason in changes["reasons"]}
    assert all(reason["done"] for reason in changes["reasons"])
    assert dict(request["sent"]["headers"])["x-svir-backend"] == "b0"
    assert request["sent"]["status"] == 200


ROUTES: Final = {
    "stream": (STREAM, ANSWER),
    "whole": (CHAT, ANSWER),
    "calls": (
        STREAM | {"tools": [{"type": "function", "function": {"name": "f", "description": SECRET}}]},
        chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": f'{{"a":"{SECRET}"}}'}}]})
        + chunk({"reasoning_content": SECRET})
        + chunk({}, "tool_calls")
        + DONE,
    ),
    "an error in the stream": (STREAM, text("x") + f'data: {{"error":"{SECRET * 20}"}}\n\n'.encode()),
    "no JSON": (STREAM, text("x") + f"data: {SECRET}\n\n".encode()),
    "no stream": (STREAM, f"<html>{SECRET}</html>".encode()),
    "a document": (CHAT, json.dumps({"choices": [{"message": {"content": SECRET}}]}).encode()),
}  # fmt: skip


@pytest.mark.parametrize("name", ROUTES)
async def test_without_prompts_nothing_that_was_written_is_told(name: str) -> None:
    body, answer = ROUTES[name]
    messages = [{"role": "system", "content": SECRET}, {"role": "user", "content": [{"type": "text", "text": SECRET}]}]
    asked = body | {"messages": messages, "metadata": {"x": SECRET}, "user": SECRET, "stop": [SECRET]}
    async with proxied() as proxy, viewing(proxy) as page, proxy.client() as client:
        await client.ask(asked)
        upstream = await proxy.server.accept()
        middle = len(answer) // 2
        assert SECRET.encode() in await upstream.answer(STREAM_HEAD + piece(answer[:middle]))
        await upstream.send(piece(answer[middle:]) + LAST_PIECE)
        request = await page.over(1)
        assert request["changes"]["0"]["lines"]
        error = request["summary"]["error"]
    told = page.text
    if error is not None:  # the words of an error are those of the log, and as short
        assert len(error["message"]) <= 300
        told = told.replace(json.dumps(error["message"], ensure_ascii=False)[1:-1], "")
    assert SECRET not in told


async def test_what_the_server_refuses_is_shown_without_the_proxys_key() -> None:
    backend, shown = {"api_key": "sk-of-the-upstream"}, {"show_prompts": True}
    async with proxied(backend, inspector=shown) as proxy, viewing(proxy) as page, proxy.client() as client:
        await client.ask(CHAT)
        upstream = await proxy.server.accept()
        await upstream.answer(whole({"error": {"message": "no sk-of-the-upstream here", "type": "x"}}, 500))
        assert await client.status() == 502
        request = await page.over(1)
    [attempt] = request["attempts"]
    assert attempt["status"] == 500
    assert json.loads(attempt["error_body"])["error"]["message"] == "no [key] here"
    assert attempt["error"]["kind"] == request["summary"]["error"]["kind"] == "upstream_failed"
    assert "sk-of-the-upstream" not in page.text


@pytest.mark.parametrize("asked", [STREAM, CHAT], ids=["stream", "whole"])
async def test_what_the_server_answers_is_shown_without_the_proxys_key(asked: dict[str, Any]) -> None:
    backend, shown = {"api_key": "sk-of-the-upstream"}, {"show_prompts": True}
    async with proxied(backend, inspector=shown) as proxy, viewing(proxy) as page, proxy.client() as client:
        await client.ask(asked)
        upstream = await proxy.server.accept()
        await upstream.answer(whole({"choices": [], "error": {"message": "no sk-of-the-upstream"}}))
        await page.over(1)
    assert "no [key]" in page.text
    assert "sk-of-the-upstream" not in page.text


async def test_each_try_is_an_attempt() -> None:
    async with proxied(inspector={"show_prompts": True}) as proxy, viewing(proxy) as page, proxy.client() as client:
        await client.ask(CHAT | {"logit_bias": {"1": 2}})
        first = await proxy.server.accept()
        await first.answer(whole({"error": {"message": "Unknown field: logit_bias", "param": "logit_bias"}}, 400))
        assert b"logit_bias" not in await first.answer(STREAM_HEAD + piece(ANSWER) + LAST_PIECE)
        assert await client.status() == 200
        request = await page.over(1)
    assert [attempt["status"] for attempt in request["attempts"]] == [400, 200]
    removed = [line for mark, _, line in request["changes"]["1"]["lines"] if mark == "-"]
    assert removed == ['"logit_bias": {"1":2}']
    assert "retry.drop=logit_bias" in {reason["note"] for reason in request["changes"]["1"]["reasons"]}


async def test_an_attempt_that_could_not_begin_says_why() -> None:
    async with (
        proxied({"strict": True, "profile": "mlx-lm"}) as proxy,
        viewing(proxy) as page,
        proxy.client() as client,
    ):
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        await client.ask(CHAT | {"messages": [{"role": "user", "content": [image]}]})
        listed = await proxy.server.accept()
        await listed.answer(whole({"object": "list", "data": [{"id": "m"}]}))
        status = await client.status()
        request = await page.over(1)
    assert status == 400
    [attempt] = request["attempts"]
    assert (attempt["asked"], attempt["error"]["kind"]) == (None, "image_not_supported")


async def test_a_request_that_is_traced_is_shown_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with SpanCollector() as collector:
        async with (
            proxied(tracing={"endpoint": collector.url}) as proxy,
            viewing(proxy) as page,
            proxy.client() as client,
        ):
            await client.ask(STREAM)
            upstream = await proxy.server.accept()
            assert b"traceparent: " in await upstream.answer(STREAM_HEAD + piece(ANSWER) + LAST_PIECE)
            assert await client.status() == 200
            request = await page.over(1)
        await collector.has(2)
    assert [attempt["status"] for attempt in request["attempts"]] == [200]
    assert shown(request)[-1] == {"done": True}


def test_it_is_an_exchange_that_asks_as_any_other() -> None:
    assert ObservedExchange.run is ObservedExchange.__mro__[1].run
