"""Chat over real sockets: a server that does what the test says, the proxy behind uvicorn, a client that speaks bytes."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import logging
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from svir_proxy.conform.dialect import check_completion, check_error, check_stream
from svir_proxy.conform.judge import UPSTREAM_KEY
from svir_proxy.settings import Settings
from tests.server.conftest import Clock
from tests.server.support import (
    ANSWER,
    CHAT,
    COMPLETION,
    DONE,
    FINISH,
    LAST_PIECE,
    PING,
    ROLE,
    STREAM,
    STREAM_HEAD,
    Client,
    Proxied,
    chunk,
    deltas,
    event,
    listing,
    piece,
    proxied,
    serving,
    settings,
    text,
    whole,
)
from tests.server.transport.raw_server import Peer, RawServer, soon, until

pytestmark = pytest.mark.usefixtures("leaves_nothing")

A, B = {"content": "a"}, {"content": "b"}
COMMENT: Final = ": keepalive"


async def asked(proxy: Proxied, client: Client, body: Any = STREAM) -> Peer:
    """The server's end, after it got the request."""
    await client.ask(body)
    peer = await proxy.server.accept()
    await peer.request()
    return peer


async def turns(count: int = 20) -> None:
    """Let the loop turn, so that what could happen has."""
    for _ in range(count):
        await asyncio.sleep(0)


def envelope(body: Any) -> tuple[str, str]:
    """Code and message; asserts that it is a proper envelope."""
    assert check_error(json.dumps(body).encode()) == []
    return body["error"]["code"], body["error"]["message"]


# ---------------------------------------------------------------- the beginning of a stream


async def test_headers_are_held_until_the_first_output() -> None:
    async with proxied() as proxy, proxy.client() as client:
        peer = await asked(proxy, client)
        await peer.send(STREAM_HEAD + piece(chunk({"role": "assistant", "content": ""}) + PING))
        reading = asyncio.create_task(client.status())
        await turns(200)
        assert not reading.done()
        await peer.send(piece(text("a")))
        assert await soon(reading) == 200
        assert client.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert client.headers["cache-control"] == "no-cache"
        assert client.headers["x-accel-buffering"] == "no"
        assert client.headers["x-svir-backend"] == "b0"
        assert deltas(await client.piece()) == [ROLE, A]
        await peer.send(piece(FINISH + DONE) + LAST_PIECE)
        assert deltas(await client.rest()) == ["stop", "[DONE]"]


async def test_after_a_while_the_stream_begins_without_output_and_is_kept_alive(clock: Clock) -> None:
    async with proxied() as proxy, proxy.client() as client:
        peer = await asked(proxy, client)
        clock.advance(4.5)
        await turns()
        clock.advance(1)
        assert await client.status() == 200
        assert deltas(await client.piece()) == [ROLE]
        for _ in range(3):
            clock.advance(9)
            await turns()
            clock.advance(1.5)
            assert await client.piece() == b": keepalive\n\n"
        await peer.send(STREAM_HEAD + piece(text("a")))
        assert deltas(await client.piece()) == [A], "the role is said once"
        clock.advance(10.5)
        assert await client.piece() == b": keepalive\n\n"
        await peer.send(piece(text("b") + FINISH + DONE) + LAST_PIECE)
        assert deltas(await client.rest()) == [B, "stop", "[DONE]"]


ERROR_EVENT: Final = event({"error": {"message": "its own words", "type": "server_error"}})
BROKEN: Final[dict[str, tuple[bytes, str, int]]] = {
    "an error event": (piece(ERROR_EVENT), "upstream_failed", 502),
    "cut off": (b"", "stream_truncated", 502),
    "reset": (b"", "stream_truncated", 502),
    "in the middle of a piece": (b"ff\r\ndata: {", "stream_truncated", 502),
    "ended without a finish": (LAST_PIECE, "stream_truncated", 502),
    "no JSON": (piece(b"data: {]\n\n"), "upstream_bad_response", 502),
}


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("when", ["before output", "begun without output", "after output"])
async def test_a_failure(how: str, when: str, clock: Clock) -> None:
    data, code, status = BROKEN[how]
    async with proxied() as proxy, proxy.client() as client:
        peer = await asked(proxy, client)
        await peer.send(STREAM_HEAD + piece(chunk({"role": "assistant", "content": ""})))
        if when == "begun without output":
            clock.advance(6)
            assert await client.status() == 200
            assert deltas(await client.piece()) == [ROLE]
        elif when == "after output":
            await peer.send(piece(text("a")))
            assert await client.status() == 200
            assert deltas(await client.piece()) == [ROLE, A]
        await peer.send(data)
        await turns()
        if how == "reset":
            peer.reset()
        else:
            peer.end()
        if when == "before output":
            assert await client.status() == status
            assert client.headers["x-request-id"]
            assert envelope(await client.body())[0] == code
        else:
            rest = await client.rest()
            assert deltas(rest) == [code], "the error is the last event, and the HTTP body ends properly"


async def test_no_server() -> None:
    async with proxied() as proxy:
        await proxy.server.stop()
        for body in (CHAT, STREAM):
            async with proxy.client() as client:
                status, said = await client.answer(body)
                code, message = envelope(said)
                assert (status, code) == (502, "upstream_unreachable")
                assert "Is the server running?" in message


@pytest.mark.parametrize("body", [CHAT, STREAM], ids=["whole", "stream"])
@pytest.mark.parametrize("how", ["closed", "reset", "half a head", "no HTTP"])
async def test_no_answer(body: dict[str, Any], how: str) -> None:
    async with proxied() as proxy, proxy.client() as client:
        peer = await asked(proxy, client, body)
        if how == "reset":
            peer.reset()
        else:
            await peer.send(
                {"closed": b"", "half a head": b"HTTP/1.1 200 OK\r\nx:", "no HTTP": b"SSH-2.0\r\n\r\n"}[how]
            )
            peer.end()
        assert await client.status() == 502
        code, _ = envelope(await client.body())
        assert code == ("upstream_bad_response" if how == "no HTTP" else "upstream_failed")


# ---------------------------------------------------------------- limits of time


@pytest.mark.parametrize("answers", [False, True], ids=["no head", "only comments"])
@pytest.mark.parametrize("body", [CHAT, STREAM], ids=["whole", "stream"])
async def test_the_first_output_takes_too_long(body: dict[str, Any], answers, clock: Clock) -> None:
    async with proxied({"timeouts": {"first_output": 3}}) as proxy, proxy.client() as client:
        peer = await asked(proxy, client, body)
        if answers:
            await peer.send(STREAM_HEAD + piece(PING))
        for _ in range(2):
            clock.advance(1.4)
            await turns()
            if answers:
                await peer.send(piece(PING + chunk({"role": "assistant"})))
        clock.advance(0.3)
        assert await client.status() == 504
        code, message = envelope(await client.body())
        assert code == "upstream_timeout"
        assert "timeouts.first_output" in message
        await peer.gone()


async def test_the_first_output_takes_too_long_for_a_stream_that_has_begun(clock: Clock) -> None:
    async with proxied({"timeouts": {"first_output": 60}}) as proxy, proxy.client() as client:
        peer = await asked(proxy, client)
        clock.advance(6)
        assert await client.status() == 200
        assert deltas(await client.piece()) == [ROLE]
        clock.advance(55)
        assert deltas(await client.rest())[-1] == "upstream_timeout"
        await peer.gone()


async def test_the_server_falls_silent(clock: Clock) -> None:
    async with proxied({"timeouts": {"idle": 30}}) as proxy, proxy.client() as client:
        peer = await asked(proxy, client)
        await peer.send(STREAM_HEAD + piece(text("a")))
        assert await client.status() == 200
        assert deltas(await client.piece()) == [ROLE, A]
        for _ in range(2):
            clock.advance(14)
            assert await client.piece() == b": keepalive\n\n"
            await peer.send(piece(PING))
            await turns()
        clock.advance(3)
        assert deltas(await client.rest()) == ["upstream_timeout"]
        await peer.gone()


async def test_an_error_whose_body_never_ends(clock: Clock) -> None:
    async with proxied() as proxy, proxy.client() as client:
        peer = await asked(proxy, client)
        said = b'{"error": {"message": "its own words"}}'
        await peer.send(b"HTTP/1.1 500 X\r\ncontent-length: 9999\r\n\r\n" + said)
        await turns(100)
        clock.advance(2.5)
        assert await client.status() == 502
        assert envelope(await client.body()) == ("upstream_failed", "its own words")
        await peer.gone()


# ---------------------------------------------------------------- a client that leaves


@pytest.mark.parametrize("body", [CHAT, STREAM], ids=["whole", "stream"])
@pytest.mark.parametrize(
    "when", ["no head", "head", "no output", "begun", "output", "an error's body", "the second try", "slow reader"]
)
async def test_a_client_that_leaves_stops_the_server(
    when: str, body: dict[str, Any], clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "svir_proxy.requests")
    async with proxied() as proxy, proxy.client(receive_buffer=4096 if when == "slow reader" else None) as client:
        peer = await asked(proxy, client, {**body, "user": "u"})
        if when == "head":
            await peer.send(STREAM_HEAD)
        elif when == "no output":
            await peer.send(STREAM_HEAD + piece(PING))
        elif when == "an error's body":
            await peer.send(b"HTTP/1.1 500 X\r\ncontent-length: 9999\r\n\r\n{")
        elif when == "output":
            await peer.send(STREAM_HEAD + piece(text("a")))
        elif when == "the second try":
            await peer.send(whole({"error": {"message": "user is no field"}}, 400))
            await peer.request()
        elif when == "begun":
            clock.advance(6)
        elif when == "slow reader":
            await peer.send(STREAM_HEAD)
            flood = asyncio.create_task(_flood(peer))
            if body is STREAM:
                await _stalled(flood, peer)
        await turns(50)
        client.leave()
        await peer.gone()
        if when == "slow reader":
            flood.cancel()
        await until(lambda: bool(caplog.records))
        assert [record.told["status"] for record in caplog.records] == [499]  # type: ignore[attr-defined]


async def test_a_client_that_leaves_while_the_model_list_is_waited_for() -> None:
    async with proxied({"profile": "vllm"}) as proxy, proxy.client() as client:
        await client.ask(STREAM)
        peer = await proxy.server.accept()
        assert (await peer.request()).startswith(b"GET /v1/models ")
        client.leave()
        await turns(50)
        assert proxy.server.accepted == 1, "no chat is begun"
        await peer.send(whole(listing("m")))
        await turns(50)
        assert proxy.server.accepted == 1


async def test_a_client_that_leaves_before_its_request_is_whole() -> None:
    async with proxied() as proxy:
        async with proxy.client() as client:
            await client.ask(b'{"model":', content_length="1000")
            await turns(50)
            client.leave()
        assert proxy.server.accepted == 0


async def _flood(peer: Peer) -> None:
    """Output without end; PROGRESS counts what the sockets took."""
    with contextlib.suppress(ConnectionError):
        while True:
            await peer.send(piece(text("x" * 30_000)))
            peer.taken = getattr(peer, "taken", 0) + 1  # type: ignore[attr-defined]


async def _stalled(flood: asyncio.Task[None], peer: Peer) -> int:
    """Wait until nothing more is taken of the flood; how many pieces were."""
    last, calm = -1, 0
    while calm < 300:
        assert not flood.done()
        taken = getattr(peer, "taken", 0)
        calm = calm + 1 if taken == last else 0
        last = taken
        await asyncio.sleep(0)
    return last


async def test_a_client_that_does_not_read_holds_the_server_back_and_loses_nothing() -> None:
    async with proxied() as proxy, proxy.client(receive_buffer=4096) as client:
        peer = await asked(proxy, client)
        await peer.send(STREAM_HEAD)
        flood = asyncio.create_task(_flood(peer))
        taken = await _stalled(flood, peer)
        assert taken * 30_000 < 30 << 20, "what the sockets of this machine hold, and little more"
        flood.cancel()
        finishing = asyncio.create_task(_finish(peer, flood))
        assert await client.status() == 200
        said = deltas(await client.rest())
        sent = await soon(finishing)
        assert said[-2:] == ["stop", "[DONE]"]
        assert said[0] == ROLE
        assert [len(delta["content"]) for delta in said[1:-2] if delta != COMMENT] == [30_000] * sent


async def _finish(peer: Peer, flood: asyncio.Task[None]) -> int:
    """End the flood; how many pieces were sent in all. The one that was under way counts: it is in the buffer."""
    with contextlib.suppress(asyncio.CancelledError):
        await flood
    await peer.send(piece(FINISH + DONE) + LAST_PIECE)
    return int(peer.taken) + 1  # type: ignore[attr-defined]


# ---------------------------------------------------------------- once more without a field


OPTIONAL: Final = {**CHAT, "user": "u", "seed": 1}


def rejection(message: str, status: int = 400, **more: Any) -> bytes:
    return whole({"error": {"message": message, **more}}, status)


def body_of(request: bytes) -> Any:
    return json.loads(request.partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("answer", "dropped"),
    [
        (rejection("unknown field 'user'"), ["user"]),
        (rejection("no", param="seed"), ["seed"]),
        (rejection("nope", 422), ["seed", "user"]),
        (STREAM_HEAD + piece(event({"error": {"message": "bad 'user'", "code": 400}})) + LAST_PIECE, ["user"]),
    ],
    ids=["named", "param", "unnamed", "in a stream"],
)
async def test_a_second_try_without_what_was_rejected(answer: bytes, dropped: list[str], stream) -> None:
    async with proxied() as proxy, proxy.client() as client:
        await client.ask(OPTIONAL | {"stream": stream})
        peer = await proxy.server.accept()
        first = body_of(await peer.answer(answer))
        assert {"user", "seed"} <= set(first)
        second = body_of(await peer.answer(whole(COMPLETION)))
        assert {"user", "seed"} - set(second) == set(dropped)
        assert await client.status() == 200
        told = client.headers["x-svir-rewrites"].split(", ")
        assert [note for note in told if note.startswith("retry")] == [f"retry.drop={name}" for name in dropped]
        await (client.rest() if stream else client.body())

        await client.ask(OPTIONAL | {"stream": stream})
        third = body_of(await peer.answer(whole(COMPLETION)))
        assert {"user", "seed"} - set(third) == set(dropped), "it is known now"
        assert await client.status() == 200
        assert all(f"drop={name}" in client.headers["x-svir-rewrites"] for name in dropped)
        await (client.rest() if stream else client.body())

        await client.ask(OPTIONAL | {"stream": stream, "model": "other"})
        assert {"user", "seed"} <= set(body_of(await peer.answer(whole(COMPLETION)))), "but of this model only"
        assert await client.status() == 200


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (rejection("user", 401), 502),
        (rejection("user_id", 429), 429),
        (rejection("'user'", 500), 502),
        (rejection("'user'", 503), 503),
        (rejection("This model's maximum context length is 5 tokens, 'user'"), 400),
        (rejection("'messages' is bad"), 400),
        (STREAM_HEAD + piece(event({"error": {"message": "'user'", "code": 500}})) + LAST_PIECE, 502),
    ],
)
async def test_no_second_try_for_anything_else(answer: bytes, status: int) -> None:
    async with proxied() as proxy, proxy.client() as client:
        await client.ask(OPTIONAL)
        peer = await proxy.server.accept()
        await peer.answer(answer)
        assert await client.status() == status
        await client.body()
        await client.ask(OPTIONAL)
        assert {"user", "seed"} <= set(body_of(await peer.request())), "the next request, and nothing was learned"


@pytest.mark.parametrize("stream", [False, True])
async def test_no_second_try_after_output(stream) -> None:
    async with proxied() as proxy, proxy.client() as client:
        peer = await asked(proxy, client, OPTIONAL | {"stream": stream})
        late = event({"error": {"message": "unknown field 'user'", "code": 400}})
        await peer.send(STREAM_HEAD + piece(text("a") + late) + LAST_PIECE)
        status = await client.status()
        assert status == (200 if stream else 400)
        await (client.rest() if stream else client.body())
        await client.ask(OPTIONAL)
        assert b"user" in await peer.request(), "the next request"
        assert proxy.server.accepted == 1


async def test_a_second_try_that_fails_too() -> None:
    async with proxied() as proxy, proxy.client() as client:
        await client.ask(OPTIONAL)
        peer = await proxy.server.accept()
        await peer.answer(rejection("unknown field 'user'"))
        await peer.answer(rejection("unknown field 'seed'"))
        assert await client.status() == 400
        assert "'seed'" in envelope(await client.body())[1]
        assert "retry.drop=user" in client.headers["x-svir-rewrites"]
        await client.ask(OPTIONAL)
        assert "user" in body_of(await peer.request()), "only what helped is learned"


async def test_both_tries_share_one_limit(clock: Clock) -> None:
    async with proxied({"timeouts": {"first_output": 4}}) as proxy, proxy.client() as client:
        peer = await asked(proxy, client, OPTIONAL)
        clock.advance(3)
        await peer.send(rejection("unknown field 'user'"))
        await peer.request()
        clock.advance(1.5)
        assert await client.status() == 504


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize(
    "shown", [{"authorization": "Bearer own-key"}, {"x_api_key": "own-key"}, {"api_key": "own-key"}]
)
async def test_nothing_of_the_clients_head_reaches_the_server(shown: dict[str, str]) -> None:
    async with proxied(auth={"keys": ["own-key"]}) as proxy, proxy.client() as client:
        await client.ask(
            CHAT, **shown, cookie="c=1", user_agent="agent/1", x_forwarded_for="10.0.0.1", origin="http://o"
        )
        peer = await proxy.server.accept()
        request = await peer.answer(whole(COMPLETION))
        assert await client.status() == 200
        await client.body()
        head = request.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        assert head[0] == "POST /v1/chat/completions HTTP/1.1"
        sent = dict(line.lower().split(": ", 1) for line in head[1:])
        assert sent == {
            "host": f"127.0.0.1:{proxy.server.port}",
            "accept": "application/json, text/event-stream",
            "accept-encoding": "identity",
            "authorization": f"bearer {UPSTREAM_KEY}",
            "content-type": "application/json",
            "content-length": sent["content-length"],
        }
        assert b"own-key" not in request
        for refused in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Bearer {UPSTREAM_KEY}"}):
            status, said = await client.answer(CHAT, **refused)
            assert (status, envelope(said)[0]) == (401, "invalid_api_key")
        assert proxy.server.accepted == 1


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_that_refuses_the_proxys_key(status: int, stream) -> None:
    async with proxied() as proxy, proxy.client() as client:
        await client.ask(CHAT | {"stream": stream})
        peer = await proxy.server.accept()
        await peer.answer(rejection(f"Incorrect API key provided: {UPSTREAM_KEY}", status))
        assert await client.status() == 502
        body = await client.body()
        assert envelope(body)[0] == "upstream_auth_failed"
        assert UPSTREAM_KEY not in json.dumps(body)
        assert UPSTREAM_KEY not in str(client.headers)


async def test_no_key_is_in_an_error_within_a_stream() -> None:
    async with proxied() as proxy, proxy.client() as client:
        peer = await asked(proxy, client)
        words = event({"error": {"message": f"key {UPSTREAM_KEY} expired", "code": 401}})
        await peer.send(STREAM_HEAD + piece(text("a") + words) + LAST_PIECE)
        assert await client.status() == 200
        rest = await client.rest()
        assert deltas(rest)[-1] == "upstream_auth_failed"
        assert UPSTREAM_KEY.encode() not in rest


# ---------------------------------------------------------------- the four ways through


ONE_PIECE: Final = whole(COMPLETION)
AS_STREAM: Final = STREAM_HEAD + piece(ANSWER) + LAST_PIECE
WRONG_TYPE: Final = AS_STREAM.replace(b"text/event-stream", b"application/json")
UNFRAMED: Final = b"HTTP/1.0 200 OK\r\n\r\n" + ANSWER
ZIPPED: Final = STREAM_HEAD.replace(b"transfer", b"content-encoding: gzip\r\ntransfer") + piece(gzip.compress(ANSWER))


@pytest.mark.parametrize(
    "answer",
    [
        ONE_PIECE,
        AS_STREAM,
        WRONG_TYPE,
        UNFRAMED,
        ZIPPED + LAST_PIECE,
        whole(gzip.compress(ANSWER), 200, "content-encoding: gzip"),
    ],
    ids=["JSON", "stream", "wrong type", "HTTP/1.0", "gzip", "gzip of one piece"],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_whatever_the_server_sends_the_client_gets_what_it_asked_for(answer: bytes, stream) -> None:
    async with proxied() as proxy, proxy.client() as client:
        peer = await asked(proxy, client, CHAT | {"stream": stream})
        await peer.send(answer)
        if answer is UNFRAMED:
            peer.end()
        assert await client.status() == 200
        if stream:
            rest = await client.rest()
            assert check_stream(rest, include_usage=False) == []
            said = deltas(rest)
            assert "".join(delta["content"] for delta in said[1:-2]) == "one two"
            assert said[-2:] == ["stop", "[DONE]"]
        else:
            body = await client.body()
            assert check_completion(json.dumps(body).encode()) == []
            assert body["choices"][0]["message"]["content"] == "one two"


async def test_an_encoding_nobody_asked_for(clock: Clock) -> None:
    async with proxied() as proxy, proxy.client() as client:
        for status in (200, 500):
            peer = await asked(proxy, client)
            await peer.send(whole(b"\x0b\x02\x80", status, "content-encoding: br"))
            assert await client.status() == 502
            assert envelope(await client.body())[0] == ("upstream_bad_response" if status == 200 else "upstream_failed")
            await turns()
            clock.advance(3.5)  # idle for longer than a connection is kept
            await peer.gone()


async def test_a_server_that_lingers_after_its_end_does_not_delay_the_client(clock: Clock) -> None:
    async with proxied() as proxy, proxy.client() as client:
        peer = await asked(proxy, client)
        await peer.send(STREAM_HEAD + piece(ANSWER))
        assert await client.status() == 200
        assert deltas(await client.rest())[-1] == "[DONE]"
        await turns()
        clock.advance(1.5)
        await peer.gone()


async def test_an_answer_to_nobody_is_limited() -> None:
    async with proxied(limits={"max_answer_bytes": 2000}) as proxy, proxy.client() as client:
        peer = await asked(proxy, client, CHAT)
        await peer.send(STREAM_HEAD + piece(text("x" * 500)) * 5)
        assert await client.status() == 502
        assert "limits.max_answer_bytes" in envelope(await client.body())[1]
        await peer.gone()


# ---------------------------------------------------------------- who answers


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("asked_for", "answered", "noted"),
    [("gpt-4", "qwen", True), ("qwen", "qwen", False), ("fast", "qwen-7b-q4", False), (None, "qwen", False)],
    ids=["another", "the same", "alias", "any"],
)
async def test_another_model_that_answers_is_noted(asked_for: str | None, answered: str, noted, stream) -> None:
    async with proxied({"models": {"fast": "qwen-7b"}}) as proxy, proxy.client() as client:
        await client.ask(CHAT | {"stream": stream, "model": asked_for})
        peer = await proxy.server.accept()
        await peer.answer(STREAM_HEAD + piece(chunk({"content": "x"}, "stop", model=answered) + DONE) + LAST_PIECE)
        assert await client.status() == 200
        assert ("model=answered_by" in client.headers.get("x-svir-rewrites", "")) == noted
        if not stream:
            assert (await client.body())["model"] == answered


async def test_each_model_goes_to_its_backend() -> None:
    seen: list[tuple[str, str]] = []

    def network(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=listing({"one": "x", "two": "y"}[request.url.host]))
        seen.append((request.url.host, json.loads(request.content)["model"]))
        return httpx.Response(200, json=COMPLETION)

    async with serving(settings("http://one", "http://two", backend={"models": {"fast": "z"}}), network) as client:
        for model in ("x", "y", "fast"):
            response = await client.post("/v1/chat/completions", json=CHAT | {"model": model})
            assert response.status_code == 200
        missing = await client.post("/v1/chat/completions", json=CHAT | {"model": "w"})
    assert seen == [("one", "x"), ("two", "y"), ("one", "z")]
    assert (missing.status_code, envelope(missing.json())[0]) == (404, "model_not_found")


async def test_a_request_is_refused_before_a_server_is_asked() -> None:
    def network(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request)

    async with serving(settings("http://one"), network) as client:
        response = await client.post("/v1/chat/completions", json=CHAT | {"n": 2})
    assert (response.status_code, envelope(response.json())[0]) == (400, "unsupported_parameter")


@pytest.mark.parametrize("tool", ["a\r\nset-cookie: x=1", "é" * 3000])
async def test_no_header_is_made_of_a_name(tool: str) -> None:
    """Names of tools stand in the notes about what was rewritten."""
    configured = settings("http://one", profile="mlx-lm", backend={"overrides": {"request": {"model": "any"}}})
    tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in (tool, "b")]
    body = CHAT | {"tools": tools, "tool_choice": {"type": "function", "function": {"name": tool}}}
    async with serving(configured, lambda _: httpx.Response(200, json=COMPLETION)) as client:
        response = await client.post("/v1/chat/completions", json=body)
    assert response.status_code < 500
    assert "set-cookie" not in response.headers
    told = response.headers["x-svir-rewrites"]
    assert told
    assert len(told) <= 1000
    assert told.isprintable()


# ---------------------------------------------------------------- the end of the process


_ROOT: Final = Path(__file__).parents[2]


@contextlib.contextmanager
def process(configured: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``serve``, and where it listens."""
    command = [sys.executable, "-m", "svir_proxy", "serve", "--config", str(configured), "--port", "0"]
    with subprocess.Popen(command, cwd=_ROOT, stderr=subprocess.PIPE, text=True) as started:
        try:
            assert started.stderr is not None
            line = started.stderr.readline()
            found = re.fullmatch(r"listening on (http://\S+)\n", line)
            assert found, line
            yield started, found[1]
        finally:
            started.kill()


@pytest.mark.parametrize("ends", [False, True], ids=["cut off", "in time"])
async def test_sigterm_during_a_stream(ends, tmp_path: Path) -> None:
    server = RawServer()
    await server.start()
    path = tmp_path / "c.yaml"
    path.write_text(
        f"server: {{drain_seconds: {30 if ends else 0}}}\n"
        f"backends: [{{name: b, base_url: 'http://127.0.0.1:{server.port}/v1'}}]\n"
    )
    with process(path) as (running, base_url):
        client = await Client.connect(base_url)
        await client.ask(STREAM)
        peer = await server.accept()
        await peer.request()
        await peer.send(STREAM_HEAD + piece(text("a")))
        assert await client.status() == 200
        assert deltas(await client.piece()) == [ROLE, A]
        running.send_signal(signal.SIGTERM)
        if ends:
            await _no_longer_accepted(base_url)
            await peer.send(piece(text("b") + FINISH + DONE) + LAST_PIECE)
            assert deltas(await client.rest()) == [B, "stop", "[DONE]"]
        else:
            assert deltas(await client.rest()) == ["upstream_unavailable"]
            await peer.gone()
        await client.close()
        _, errors = await soon(asyncio.to_thread(running.communicate))
        assert running.returncode == 0
        assert "Traceback" not in errors
    await server.stop()


async def _no_longer_accepted(base_url: str) -> None:
    with contextlib.suppress(ConnectionError):
        while True:
            await (await Client.connect(base_url)).close()


def test_settings_of_these_tests_are_the_defaults() -> None:
    defaults = Settings()
    assert (defaults.streaming.commit_after, defaults.streaming.keepalive) == (5, 10)
    assert defaults.limits.error_body_seconds == 2


async def test_a_backend_with_two_places_and_a_line_of_one() -> None:
    async with proxied(backend={"max_requests": 2, "max_waiting": 1}) as proxy, contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(proxy.client()) for _ in range(5)]
        peers = [await asked(proxy, client) for client in clients[:2]]
        await clients[2].ask(STREAM)
        await turns()
        status, said = await clients[3].answer(STREAM)
        code, message = envelope(said)
        assert (status, code, clients[3].headers["retry-after"]) == (503, "overloaded", "1")
        assert "max_requests" in message
        assert proxy.server.accepted == 2, "nobody asks the server before there is a place"
        await peers[0].send(STREAM_HEAD + piece(text("a")) + piece(FINISH) + LAST_PIECE)
        await peers[0].request()  # who was in line, on the same connection
        clients[1].leave()  # gives back a place without having had an answer
        await peers[1].gone()
        await asked(proxy, clients[4])
