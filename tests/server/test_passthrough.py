"""The endpoints beside chat over real sockets: what goes on to the server, what comes back, and what is held of either."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import logging
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import httpx
import pytest

from svir_proxy.conform.dialect import check_error
from svir_proxy.conform.judge import UPSTREAM_KEY
from svir_proxy.server import upstream
from svir_proxy.server.app import create_app
from svir_proxy.server.transport import post_head
from tests.server.support import (
    LAST_PIECE,
    STREAM_HEAD,
    Client,
    Proxied,
    Wire,
    event,
    http_scope,
    listing,
    living,
    piece,
    proxied,
    serving,
    settings,
    whole,
)
from tests.server.transport.raw_server import Peer, soon, until

pytestmark = pytest.mark.usefixtures("leaves_nothing")

MIB: Final = 2**20
ALIAS: Final = {"models": {"fast": "org/model"}}
EMBED: Final = {"input": ["a", "b"], "model": "fast"}
FORM: Final = "multipart/form-data; boundary=b"


def form(*parts: tuple[str, bytes], end: bytes = b"--b--\r\n") -> bytes:
    """A form of fields; ``file`` is one with a name."""
    named = {"file": '"file"; filename="a.wav"'}
    return b"".join(
        b"--b\r\nContent-Disposition: form-data; name=%b\r\n\r\n%b\r\n" % (named.get(name, f'"{name}"').encode(), data)
        for name, data in parts
    ) + end  # fmt: skip


def said(head: bytes) -> tuple[str, dict[str, str]]:
    """The first line of a request, and its headers."""
    first, *lines = head.split(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines)


def told(body: Any) -> tuple[str | None, str]:
    """Code and message of an envelope; asserts that it is a proper one."""
    assert check_error(json.dumps(body).encode()) == []
    return body["error"]["code"], body["error"]["message"]


async def taken(client: Client) -> bytes:
    """A body with a length."""
    return await soon(client._reader.readexactly(int(client.headers["content-length"])))


# ---------------------------------------------------------------- what goes on

JSON_PATHS: Final = ["completions", "embeddings", "rerank", "moderations", "responses"]
MEDIA_PATHS: Final = ["audio/speech", "audio/transcriptions", "images/generations", "images/edits", "audio/a/b-c_9"]


@pytest.mark.parametrize("path", [*JSON_PATHS, *MEDIA_PATHS])
async def test_each_endpoint(path: str) -> None:
    async with proxied(ALIAS) as proxy, proxy.client() as client:
        peer = None
        for written in (f"/v1/{path}", f"/{path}", f"//v1//{path}/"):
            body = b'{ "x": [1.50, {"model": "fast"}],\t"model" : "fast" , "y":"\\u00e9"}'
            await client.ask(
                body, path=written, authorization="Bearer own", x_api_key="own", cookie="c=1", accept="a/b"
            )
            peer = peer or await proxy.server.accept()
            first, headers = said(request := await peer.request())
            assert first == f"POST /v1/{path} HTTP/1.1"
            assert headers == {
                "host": f"127.0.0.1:{proxy.server.port}",
                "content-type": "application/json",
                "content-length": str(len(body) + 5),
                "accept": "a/b",
                "accept-encoding": "identity",
                "authorization": f"Bearer {UPSTREAM_KEY}",
            }
            assert request.endswith(
                b'\r\n\r\n{ "x": [1.50, {"model": "fast"}],\t"model" : "org/model" , "y":"\\u00e9"}'
            )
            await peer.send(whole({"object": "list"}))
            assert (await client.status(), await client.body()) == (200, {"object": "list"})
            assert client.headers["x-svir-backend"] == "b0"
            assert client.headers["x-svir-rewrites"] == "model=alias"
            assert len(client.headers["x-request-id"]) == 32


@pytest.mark.parametrize("path", MEDIA_PATHS)
@pytest.mark.parametrize("fields", [("model", "file"), ("file", "model"), ("file",)])
async def test_forms(path: str, fields: tuple[str, ...]) -> None:
    values = {"model": b"fast", "file": b"\0\xff\r\n" * 10}
    async with proxied(ALIAS) as proxy, proxy.client() as client:
        await client.ask(form(*((name, values[name]) for name in fields)), path=f"/v1/{path}", content_type=FORM)
        peer = await proxy.server.accept()
        first, headers = said(request := await peer.request())
        assert (first, headers["content-type"], headers["accept"]) == (f"POST /v1/{path} HTTP/1.1", FORM, "*/*")
        values["model"] = b"org/model"
        assert request.split(b"\r\n\r\n", 1)[1] == form(*((name, values[name]) for name in fields))
        await peer.send(whole(b"text", 200, "content-type: text/plain"))
        assert (await client.status(), await taken(client)) == (200, b"text")
        assert ("x-svir-rewrites" in client.headers) == ("model" in fields)


@pytest.mark.parametrize(
    ("backend", "profile", "url", "key"),
    [
        ({}, "generic", "http://s/v1/embeddings", "authorization"),
        ({"base_url": "http://s/openai/v1"}, "azure", "http://s/openai/v1/embeddings", "api-key"),
        ({"base_url": "http://s/v1beta/openai"}, "gemini", "http://s/v1beta/openai/embeddings", "authorization"),
        ({}, "github-models", "http://s/inference/embeddings", "authorization"),
        (
            {
                "overrides": {
                    "endpoint": {
                        "chat_path": "/openai/deployments/{model}/chat/completions",
                        "query": {"api-version": "2024-10-21"},
                    }
                }
            },
            "azure",
            "http://s/openai/deployments/org%2Fmodel/embeddings?api-version=2024-10-21",
            "api-key",
        ),
        ({"overrides": {"endpoint": {"chat_path": "/api/chat"}}}, "generic", "http://s/v1/embeddings", "authorization"),
    ],
)
async def test_endpoints_stand_beside_chat(backend: dict[str, Any], profile: str, *, url: str, key: str) -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={})

    configured = settings("http://s/v1", backend={**ALIAS, "headers": {"X-Own": "o"}, **backend}, profile=profile)
    async with serving(configured, answer) as client:
        response = await client.post("/v1/embeddings?key=secret", json=EMBED, headers={"x-other": "1"})
    assert response.status_code == 200
    (request,) = seen
    assert str(request.url) == url
    names = {"host", "content-type", "content-length", "accept", "accept-encoding", "x-own", key}
    assert set(request.headers) == names
    assert UPSTREAM_KEY in request.headers[key]
    assert json.loads(request.content) == EMBED | {"model": "org/model"}


@pytest.mark.parametrize(
    ("model", "server", "sent"),
    [("one", "b0", "one"), ("two", "b1", "org/two"), ("org/two", "b1", "org/two"), ("alias", "b1", "real")],
)
async def test_the_backend_that_has_the_model_is_asked(model: str, server: str, sent: str) -> None:
    lists = {"s0": listing("one"), "s1": listing("org/two")}
    seen: list[tuple[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=lists[request.url.host])
        seen.append((request.url.host, json.loads(request.content)["model"]))
        return httpx.Response(200, json={})

    configured = settings("http://s0", "http://s1")
    backends = [configured.backends[0], configured.backends[1].model_copy(update={"models": {"alias": "real"}})]
    configured = configured.model_copy(update={"backends": backends})
    async with serving(configured, answer) as client:
        if model == "two":  # a path id's clean name
            lists["s1"] = {"data": [{"id": "org/two"}, {"id": "/models/two"}]}
            sent = "/models/two"
        response = await client.post("/v1/embeddings", json={"model": model, "input": "x"})
        missing = await client.post("/v1/embeddings", json={"input": "x"})
    assert (response.status_code, response.headers["x-svir-backend"]) == (200, server)
    assert seen == [(f"s{server[1]}", sent)]
    assert (missing.status_code, told(missing.json())[0]) == (404, "model_not_found")


async def test_heads_are_written_once_and_are_those_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model in the path, of any characters; and more different heads than are kept."""
    written: list[Any] = []
    monkeypatch.setattr(upstream, "post_head", lambda *head: written.append(head) or post_head(*head))
    endpoint = {"chat_path": "/d/{model}/chat/completions"}
    async with proxied({"overrides": {"endpoint": endpoint}}) as proxy, proxy.client() as client:
        peer = None
        for model, sent in [("a", "a"), ("b/c", "b%2Fc"), ("a", "a"), ("\ud83d", "%3F"), ("é\r\n", "%C3%A9%0D%0A")]:
            await client.ask({"model": model}, path="/v1/rerank")
            peer = peer or await proxy.server.accept()
            assert said(await peer.answer(whole({})))[0] == f"POST /d/{sent}/rerank HTTP/1.1"
            assert await client.status() == 200
            await client.body()
        for number in [*range(100), 100, 0, 100]:
            written.clear()
            await client.ask(EMBED, path="/v1/embeddings", accept=f"a/{number}")
            assert peer is not None
            assert said(await peer.answer(whole({})))[1]["accept"] == f"a/{number}"
            assert await client.status() == 200
            await client.body()
    assert (proxy.server.accepted, written) == (1, []), "whatever others there were"


def _several(answer: Callable[[str, httpx.Request], httpx.Response], **sections: Any) -> Any:
    """A client of a proxy with three backends that have the model, and whom it asked."""
    asked: list[str] = []

    def network(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        return answer(request.url.host, request)

    configured = settings("http://s0", "http://s1", "http://s2", **sections)
    backends = [
        backend.model_copy(update={"models": {"fast": f"m{number}"}, "priority": number})
        for number, backend in enumerate(configured.backends)
    ]
    return serving(configured.model_copy(update={"backends": backends}), network), asked


@pytest.mark.parametrize(
    ("statuses", "asked", "status", "backend", "rewrites"),
    [
        ({}, ["s0"], 200, "b0", "model=alias"),
        ({"s0": 503}, ["s0", "s1"], 200, "b1", "failover=b0:upstream_unavailable, model=alias"),
        ({"s0": 500, "s1": 429}, ["s0", "s1", "s2"], 200, "b2", "failover=b0:upstream_failed, failover=b1:rate_"),
        ({"s0": 400}, ["s0"], 400, "b0", "model=alias"),
        ({"s0": 503, "s1": 503, "s2": 503}, ["s0", "s1", "s2"], 503, "b", "failover=b0:upstream_unavailable"),
    ],
)
async def test_another_backend_answers_where_one_fails(
    statuses: dict[str, int], asked: list[str], *, status: int, backend: str, rewrites: str
) -> None:
    def answer(host: str, request: httpx.Request) -> httpx.Response:
        assert json.loads(request.content) == EMBED | {"model": f"m{host[1]}"}
        return httpx.Response(statuses.get(host, 200), json={})

    client, seen = _several(answer)
    async with client as client:
        response = await client.post("/v1/embeddings", json=EMBED)
    assert (response.status_code, seen) == (status, asked)
    assert response.headers["x-svir-backend"].startswith(backend)
    assert response.headers["x-svir-rewrites"].startswith(rewrites)


async def test_what_was_passed_on_while_it_came_is_not_sent_twice() -> None:
    client, seen = _several(lambda *_: httpx.Response(503))
    large = {"model": "fast", "input": "x" * 200_000}
    async with client as client:
        whole = await client.post("/v1/embeddings", json={**EMBED, "input": "x"})
        content = json.dumps(large).encode()

        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(content), 50_000):
                yield content[start : start + 50_000]

        streamed = await client.post("/v1/embeddings", content=pieces(), headers={"content-type": "application/json"})
    assert (whole.status_code, streamed.status_code) == (503, 503)
    assert len(seen) == 4


async def test_responses_of_a_client_go_to_the_same_backend() -> None:
    """Their history is with the server. Of other requests each backend has its share."""
    configured = settings(*(f"http://s{number}" for number in range(4)), backend={"models": {"fast": "m"}})
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.host)
        return httpx.Response(200, json={})

    async with serving(configured, answer) as client:
        for _ in range(40):
            await client.post("/v1/responses", json=EMBED)
        assert len(set(seen)) == 1
        for _ in range(40):
            await client.post("/v1/embeddings", json=EMBED)
    assert len(set(seen)) > 1


# ---------------------------------------------------------------- what does not go on

EXPECTED_TYPE: Final = "The content-type must be application/json"


@pytest.mark.parametrize(
    ("request_line", "content", "headers", "status", "code", "words"),
    [
        ("GET /v1/embeddings", b"", {}, 405, "method_not_allowed", "GET is not answered here. Use POST."),
        ("OPTIONS /v1/audio/speech", b"", {}, 405, "method_not_allowed", "Use POST."),
        ("HEAD /v1/rerank", b"", {}, 405, None, ""),
        ("DELETE /responses", b"", {}, 405, "method_not_allowed", "Use POST."),
        ("GET /v1/responses/r1", b"", {}, 404, "unknown_url", "responses, audio/*, images/*}, GET /v1/models"),
        ("POST /v1/files", b"{}", {}, 404, "unknown_url", "There is no '/v1/files' here."),
        ("POST /v1/audio", b"{}", {}, 404, "unknown_url", "no '/v1/audio' here"),
        ("POST /v1/audio/%2e%2e/models", b"{}", {}, 404, "unknown_url", "There is no"),
        ("POST /v1/audio/a%3Fb", b"{}", {}, 404, "unknown_url", "There is no"),
        ("POST /v1/audio//speech", b"{}", {}, 404, "unknown_url", "There is no"),
        ("POST /v1/embeddings", b"{}", {"content-type": ""}, 415, None, EXPECTED_TYPE),
        ("POST /v1/embeddings", b"{}", {"content-type": "text/plain"}, 415, None, EXPECTED_TYPE),
        ("POST /v1/embeddings", form(), {"content-type": FORM}, 415, None, EXPECTED_TYPE),
        ("POST /v1/audio/speech", b"{}", {"content-type": "text/plain"}, 415, None, EXPECTED_TYPE),
        ("POST /v1/embeddings", b"{}", {"content-encoding": "gzip"}, 415, None, "'gzip' is not read"),
        (
            "POST /v1/audio/speech",
            form(),
            {"content-type": FORM, "content-encoding": "br"},
            415,
            None,
            "'br' is not read",
        ),
        ("POST /v1/audio/speech", form(), {"content-type": "multipart/form-data"}, 415, None, "no boundary"),
        (
            "POST /v1/audio/speech",
            form(),
            {"content-type": FORM, "origin": "http://evil.example"},
            403,
            "forbidden_origin",
            "Pages of 'http://evil.example' may not send forms here; list it under server.cors_origins",
        ),
        ("POST /v1/audio/speech", b"--c", {"content-type": FORM}, 400, None, "The form cannot be read"),
        ("POST /v1/embeddings", b"{", {}, 400, "invalid_json", "not valid JSON"),
        ("POST /v1/embeddings", b"[]", {}, 400, "invalid_json", "must be a JSON object"),
        ("POST /v1/embeddings", b'{"model":1}', {}, 400, None, "'model' must be a string, not a number."),
        ("POST /v1/embeddings", b'{"model":"a","model":"b"}', {}, 400, None, "more than one 'model'"),
        ("POST /v1/embeddings", b" " * 201, {}, 413, "request_too_large", "200 bytes"),
        ("POST /v1/embeddings", b"{}", {"authorization": "Bearer other"}, 401, "invalid_api_key", "is not one of"),
        ("POST /v1/embeddings", b"{}", {"host": "evil.example"}, 403, "forbidden_host", "evil.example"),
    ],
)
async def test_refusals(
    request_line: str, content: bytes, headers: dict[str, str], *, status: int, code: str | None, words: str
) -> None:
    method, path = request_line.split()
    given = {"content-type": "application/json", "authorization": "Bearer own-key", **headers}
    configured = settings(server={"max_request_bytes": 200}, auth={"keys": ["own-key"]})
    asked: list[httpx.Request] = []
    async with serving(configured, asked.append) as client:
        response = await client.request(
            method, httpx.URL(f"http://127.0.0.1:8484{path}"), content=content, headers=given
        )
    assert response.status_code == status
    if status == 405:
        assert response.headers["allow"] == "POST"
    if method != "HEAD":
        assert (told(response.json())[0], words in told(response.json())[1]) == (code, True)
        assert response.headers["x-should-retry"] == "false"
    assert asked == []


@pytest.mark.parametrize("path", ["/v1/audio/../models", "/v1/audio/./a", "/v1/audio/%0d%0aX:1"])
async def test_paths_lead_nowhere_else(path: str) -> None:
    async with proxied() as proxy, proxy.client() as client:
        status, body = await client.answer({}, path=path)
        assert (status, told(body)[0]) == (404, "unknown_url")
        assert proxy.server.accepted == 0


@pytest.mark.parametrize("origins", [["http://app.example"], ["*"]])
async def test_forms_of_listed_pages(origins: list[str]) -> None:
    configured = settings(server={"cors_origins": origins})
    given = {"content-type": FORM, "origin": "http://app.example"}
    async with serving(configured, lambda _: httpx.Response(200, text="ok")) as client:
        response = await client.post("/v1/audio/transcriptions", content=form(("file", b"x")), headers=given)
    assert (response.status_code, response.text) == (200, "ok")


# ---------------------------------------------------------------- what comes back

EVENTS: Final = b': ping\r\n\r\nevent: response.created\ndata:{"a": 1}\n\ndata: [DONE]'
PACKED: Final = gzip.compress(b"text" * 100)


@pytest.mark.parametrize(
    ("answer", "status", "headers", "body"),
    [
        (
            whole({"data": []}, 200, "Server: s", "Set-Cookie: a=b", "X-RateLimit-Limit: 1", "Keep-Alive: timeout=5"),
            200,
            {"content-type": "application/json", "content-length": "12"},
            b'{"data": []}',
        ),
        (
            whole(b"\0\xff" * 99, 200, "Content-Type: audio/mpeg", "Content-Disposition: attachment; filename=a.mp3"),
            200,
            {
                "content-type": "audio/mpeg",
                "content-length": "198",
                "content-disposition": "attachment; filename=a.mp3",
            },
            b"\0\xff" * 99,
        ),
        (
            STREAM_HEAD + piece(EVENTS) + LAST_PIECE,
            200,
            {
                "content-type": "text/event-stream",
                "cache-control": "no-cache",
                "x-accel-buffering": "no",
                "transfer-encoding": "chunked",
            },
            EVENTS,
        ),
        (
            whole(PACKED, 201, "content-encoding: gzip", "content-type: text/vtt; charset=utf-8", "cache-control: private"),
            201,
            {"content-type": "text/vtt; charset=utf-8", "cache-control": "private", "transfer-encoding": "chunked"},
            b"text" * 100,
        ),
        (
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n\r\n[1, 2]",
            200,
            {"content-type": "application/json", "transfer-encoding": "chunked"},
            b"[1, 2]",
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, {}, b""),
        (whole(b"", 200), 200, {"content-length": "0"}, b""),
        (whole({"error": None, "x": 1}), 200, {"content-type": "application/json", "content-length": "23"}, None),
        (whole(b'{"error":"', 200, "content-type: application/json"), 200, {"content-type": "application/json", "content-length": "10"}, None),
        (whole(b'{"error":"a"}', 200, "content-type: text/plain"), 200, {"content-type": "text/plain", "content-length": "13"}, None),
    ],
)  # fmt: skip
async def test_answers(answer: bytes, status: int, headers: dict[str, str], body: bytes | None) -> None:
    async with proxied() as proxy, proxy.client() as client:
        await client.ask(EMBED, path="/v1/embeddings")
        peer = await proxy.server.accept()
        await peer.answer(answer)
        if b"connection: close" in answer:
            peer.end()
        assert await client.status() == status
        own = {"x-request-id", "x-svir-backend"}
        assert {name: value for name, value in client.headers.items() if name not in own} == headers
        got = await (
            client.rest() if "transfer-encoding" in headers else taken(client) if status != 204 else _nothing()
        )
        assert got == (answer.split(b"\r\n\r\n")[1] if body is None else body)
        await client.ask(EMBED, path="/v1/embeddings")  # the connection goes on
        await (await proxy.server.accept() if b"connection: close" in answer else peer).answer(whole({}))
        assert await client.status() == 200


async def _nothing() -> bytes:
    return b""


PAGE: Final = b"<!doctype html><title>LM Studio</title>"


@pytest.mark.parametrize(
    ("answer", "status", "code", "words"),
    [
        (whole({"error": {"message": "too bad", "code": "x"}}, 400), 400, "x", "too bad"),
        (whole({"detail": "wrong key"}, 401), 502, "upstream_auth_failed", "wrong key"),
        (whole({"detail": "Not Found"}, 404), 502, "upstream_bad_response", "POST /v1/embeddings: Not Found (The server"),
        (whole(b"", 404), 502, "upstream_bad_response", "check the backend's base_url"),
        (whole({"error": "model 'x' not found"}, 404), 404, "model_not_found", "model 'x' not found"),
        (whole({"error": {"message": "slow down"}}, 429, "retry-after: 7"), 429, "rate_limit_exceeded", "slow down"),
        (whole({"error": {"message": "boom"}}, 500), 502, "upstream_failed", "boom"),
        (
            whole({"error": {"code": 501, "message": "no embeddings", "type": "not_supported_error"}}, 501),
            400,
            None,
            "The server does not answer POST /v1/embeddings: no embeddings",
        ),
        (whole(b"busy", 503), 503, "upstream_unavailable", "busy"),
        (whole({"error": f"key {UPSTREAM_KEY}"}, 400), 400, None, "key [key]"),
        (whole(b"", 302, "location: http://elsewhere/"), 502, "upstream_bad_response", "302"),
        (whole({"error": "Unexpected endpoint or method. (POST /v1/embeddings)"}), 502, "upstream_failed", "Unexpected"),
        (whole({"detail": [{"msg": "field required", "loc": ["body", "x"]}]}), 502, "upstream_failed", "field required"),
        (whole(PAGE, 200, "content-type: text/html; charset=utf-8"), 502, "upstream_bad_response", "a page (text/html)"),
        (whole(b"x", 200, "content-encoding: br"), 502, "upstream_bad_response", "content-encoding"),
        (b"", 502, "upstream_failed", "closed the connection"),
        (b"garbage\r\n\r\n", 502, "upstream_bad_response", "not valid HTTP"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\ncontent-type: application/json\r\n\r\n{",
            502,
            "stream_truncated",
            "The server broke off its answer",
        ),
        (STREAM_HEAD, 502, "stream_truncated", "The server broke off its answer"),
    ],
)  # fmt: skip
async def test_failures_have_a_status(answer: bytes, status: int, *, code: str | None, words: str) -> None:
    async with proxied() as proxy, proxy.client() as client:
        await client.ask(EMBED, path="/v1/embeddings")
        peer = await proxy.server.accept()
        await peer.answer(answer)
        peer.end()
        assert await client.status() == status
        got = told(await client.body())
        assert (got[0], words in got[1]) == (code, True), got
        assert client.headers["x-svir-backend"] == "b0"
        assert client.headers.get("retry-after") == {429: "7", 503: "1"}.get(status)


async def test_a_server_that_is_away() -> None:
    async with serving(settings("http://127.0.0.1:1/v1"), _refuse) as client:
        response = await client.post("/v1/embeddings", json=EMBED)
    assert (response.status_code, told(response.json())[0]) == (502, "upstream_unreachable")


def _refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError(f"cannot connect to {request.url.host}")


@pytest.mark.parametrize(
    ("begins", "rest"),
    [
        (STREAM_HEAD + piece(b"data: 1\n\n"), "told"),
        (STREAM_HEAD + piece(b"data: 1\n\ndata: "), "cut"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: audio/mpeg\r\n\r\n" + piece(b"12"), "cut"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\ncontent-type: audio/mpeg\r\n\r\n12", "cut"),
    ],
)
async def test_failures_in_mid_answer(begins: bytes, rest: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "svir_proxy.requests")
    async with proxied() as proxy, proxy.client() as client:
        await client.ask(EMBED, path="/v1/completions")
        peer = await proxy.server.accept()
        await peer.answer(begins)
        assert await client.status() == 200
        peer.end()
        if rest == "told":
            first, last = (await client.rest()).split(b"\n\n", 1)
            assert (first, told(json.loads(last.removeprefix(b"data: ")))[0]) == (b"data: 1", "stream_truncated")
        else:
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await client._reader.readuntil(b"0\r\n\r\n")
        await until(lambda: len(caplog.records) == 1)
    record: Any = caplog.records[0]
    assert (record.levelno, record.told["status"], record.told["error"]) == (logging.WARNING, 200, "stream_truncated")


async def test_limits_of_time() -> None:
    async with proxied({"timeouts": {"first_output": 0.01, "idle": 0.01}}) as proxy:
        async with proxy.client() as client:
            await client.ask(EMBED, path="/v1/embeddings")
            assert await client.status() == 504
            code, message = told(await client.body())
        assert code == "upstream_timeout"
        assert message.endswith("(timeouts.first_output of the backend).")
        assert b"POST" in await (await proxy.server.accept()).gone()


# ---------------------------------------------------------------- as it comes


async def test_an_upload_goes_on_while_it_comes() -> None:
    start, end = form(("model", b"fast"), ("file", b""), end=b"")[:-2], b"\r\n--b--\r\n"
    pieces = [bytes([i]) * 100_000 for i in range(5)]
    length = len(start) + 500_000 + len(end)
    async with proxied(ALIAS) as proxy, proxy.client() as client:
        await client.ask(start, path="/v1/audio/transcriptions", content_type=FORM, content_length=str(length))
        client.write(pieces[0])
        peer = await proxy.server.accept()
        first, headers = said(await peer.head())
        assert headers["content-length"] == str(length + 5)
        assert "transfer-encoding" not in headers
        assert await peer.read(len(start) + 5 + 100_000) == start.replace(b"fast", b"org/model") + pieces[0]
        for data in pieces[1:]:
            client.write(data)
            assert await peer.read(100_000) == data
        client.write(end)
        assert await peer.read(len(end)) == end
        await peer.send(whole({"text": "hello"}))
        assert (await client.status(), await client.body()) == (200, {"text": "hello"})
        assert first == "POST /v1/audio/transcriptions HTTP/1.1"


async def test_an_upload_without_a_length_goes_on_in_chunks() -> None:
    head = (
        b"POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"transfer-encoding: chunked\r\n\r\n"
    )
    async with proxied(ALIAS) as proxy, proxy.client() as client:
        client.write(head + piece(b'{"model":"fast","input":"' + b"x" * 100_000))
        peer = await proxy.server.accept()
        headers = said(await peer.head())[1]
        assert (headers["transfer-encoding"], "content-length" in headers) == ("chunked", False)
        client.write(piece(b'end"}') + LAST_PIECE)
        end = b'\r\n5\r\nend"}\r\n' + LAST_PIECE
        sent = b""
        while not sent.endswith(end):
            sent += await peer.read(1)
        assert b'{"model":"org/model","input":"xxx' in sent
        await peer.send(whole({}))
        assert await client.status() == 200


async def test_an_answer_goes_on_while_it_comes() -> None:
    async with proxied() as proxy, proxy.client() as client:
        await client.ask({"stream": True}, path="/v1/completions")
        peer = await proxy.server.accept()
        await peer.answer(STREAM_HEAD)
        for number in range(5):
            await peer.send(piece(event({"n": number})))
            if not number:
                assert await client.status() == 200
            assert await client.piece() == event({"n": number})
        await peer.send(LAST_PIECE)
        assert await client.piece() == b""


async def test_a_client_that_is_asked_to_go_on() -> None:
    """``Expect: 100-continue``, as curl has it for files."""
    start = form(("model", b"m"), ("file", b"x" * 10))
    async with proxied() as proxy, proxy.client() as client:
        await client.ask(
            b"", path="/v1/audio/a", content_type=FORM, content_length=str(len(start)), expect="100-continue"
        )
        assert await client.status() == 100
        client.write(start)
        await (await proxy.server.accept()).answer(whole({}))
        assert await client.status() == 200


SIZE: Final = 50 * MIB
PIECE: Final = bytes(range(256)) * 256


@pytest.fixture
async def little_memory() -> AsyncIterator[None]:
    """Client, proxy and server together hold no more than a few pieces at a time."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < 8 * MIB


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("kind", ["form", "json"])
async def test_a_large_upload_takes_little_memory(kind: str) -> None:
    if kind == "form":
        start, end, media = form(("model", b"m"), ("file", b""), end=b"")[:-2], b"\r\n--b--\r\n", FORM
        content = PIECE
    else:
        start, end, media = b'{"model":"m","image":"', b'"}', "application/json"
        content = PIECE.replace(b'"', b"'").replace(b"\\", b"/")
    async with proxied() as proxy, proxy.client() as client:
        length = len(start) + SIZE + len(end)
        await client.ask(start + content, path="/v1/images/edits", content_type=media, content_length=str(length))
        peer = await proxy.server.accept()
        assert said(await peer.head())[1]["content-length"] == str(length)

        async def push() -> None:
            for _ in range(SIZE // len(content) - 1):
                client.write(content)
                await client._writer.drain()
            client.write(end)

        pushing = asyncio.create_task(push())
        digest, expected = hashlib.sha256(), hashlib.sha256(start)
        for _ in range(SIZE // len(content)):
            expected.update(content)
        expected.update(end)
        left = length
        while left:
            digest.update(data := await soon(peer._reader.read(min(left, 65536))))
            assert data
            left -= len(data)
        await pushing
        assert digest.digest() == expected.digest()
        await peer.send(whole({"ok": True}))
        assert (await client.status(), await client.body()) == (200, {"ok": True})


@pytest.mark.usefixtures("little_memory")
async def test_a_large_answer_takes_little_memory() -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: audio/wav\r\ncontent-length: {SIZE}\r\n\r\n".encode()
    async with proxied() as proxy, proxy.client(receive_buffer=65536) as client:
        await client.ask({"input": "x"}, path="/v1/audio/speech")
        peer = await proxy.server.accept()
        await peer.answer(head)

        async def push() -> None:
            for _ in range(SIZE // len(PIECE)):
                peer._writer.write(PIECE)
                await peer._writer.drain()

        pushing = asyncio.create_task(push())
        assert await client.status() == 200
        left = SIZE
        while left:
            data = await soon(client._reader.read(65536))
            assert data
            left -= len(data)
        await pushing


# ---------------------------------------------------------------- who leaves

START: Final = form(("model", b"m"), ("file", b"x" * 100_000), end=b"")[:-2]


async def _uploading(proxy: Proxied, client: Client) -> Peer:
    """The server's end, after it got the beginning of an upload that goes on."""
    await client.ask(START, path="/v1/audio/transcriptions", content_type=FORM, content_length=str(2 * len(START)))
    peer = await proxy.server.accept()
    await peer.head()
    await peer.read(len(START))
    return peer


async def _waiting(proxy: Proxied, client: Client) -> Peer:
    await client.ask(EMBED, path="/v1/embeddings")
    peer = await proxy.server.accept()
    await peer.request()
    return peer


async def _waiting_after_an_upload(proxy: Proxied, client: Client) -> Peer:
    peer = await _uploading(proxy, client)
    rest = b"x" * (len(START) - 9) + b"\r\n--b--\r\n"
    client.write(rest)
    assert await peer.read(len(rest)) == rest
    return peer


async def _listening(proxy: Proxied, client: Client) -> Peer:
    peer = await _waiting(proxy, client)
    await peer.send(STREAM_HEAD + piece(b"data: 1\n\n"))
    assert await client.status() == 200
    await client.piece()
    return peer


AT: Final = {
    "uploading": _uploading,
    "waiting": _waiting,
    "waiting after an upload": _waiting_after_an_upload,
    "listening": _listening,
}


@pytest.mark.parametrize("at", AT)
async def test_a_client_that_leaves_ends_the_work(at: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "svir_proxy.requests")
    async with proxied() as proxy, proxy.client() as client:
        peer = await AT[at](proxy, client)
        client.leave()
        assert await peer.gone() == b""
        await until(lambda: len(caplog.records) == 1)
    record: Any = caplog.records[0]
    assert record.told["status"] == 499


@pytest.mark.parametrize(
    ("at", "code"), [("uploading", "upstream_failed"), ("waiting after an upload", "upstream_failed")]
)
async def test_a_server_that_leaves(at: str, code: str) -> None:
    async with proxied() as proxy, proxy.client() as client:
        peer = await AT[at](proxy, client)
        peer.reset()
        assert await client.status() == 502
        assert told(await client.body())[0] == code


@pytest.mark.parametrize("more", [b"x" * 10_000, b""])
async def test_a_server_that_refuses_an_upload_before_it_has_it(more: bytes) -> None:
    async with proxied() as proxy, proxy.client() as client:
        peer = await _uploading(proxy, client)
        await peer.send(whole({"error": {"message": "too long a file"}}, 413, "connection: close"))
        peer.end()
        client.write(more)
        assert await client.status() == 400
        assert told(await client.body())[1] == "too long a file"


@pytest.mark.parametrize(
    ("rest", "status", "words"),
    [
        (b"\r\n--b\r\nContent-Disposition: form-data; name=model\r\n\r\nn", 400, "more than one 'model'"),
        (b"x" * 2 * MIB, 413, "larger than 1048576 bytes"),
    ],
)
async def test_an_upload_that_turns_out_wrong_is_broken_off(rest: bytes, status: int, words: str) -> None:
    head = (
        f"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: localhost\r\ncontent-type: {FORM}\r\n"
        "transfer-encoding: chunked\r\n\r\n"
    )
    async with proxied(server={"max_request_bytes": MIB}) as proxy, proxy.client() as client:
        client.write(head.encode() + piece(START))
        peer = await proxy.server.accept()
        await peer.head()
        client.write(piece(rest))
        assert await client.status() == status
        assert words in told(await client.body())[1]
        assert not (await peer.gone()).endswith(LAST_PIECE)


# ---------------------------------------------------------------- places, log, end of the process


async def test_places_are_shared_with_chat() -> None:
    backend = {"max_requests": 1, "max_waiting": 0}
    async with proxied(backend) as proxy, proxy.client() as first, proxy.client() as second:
        peer = await _waiting(proxy, first)
        status, body = await second.answer(EMBED, path="/v1/embeddings")
        assert (status, told(body)[0]) == (503, "overloaded")
        status, body = await second.answer({"messages": [{"role": "user", "content": "x"}]})
        assert (status, told(body)[0]) == (503, "overloaded")
        await peer.send(whole({}))
        assert await first.status() == 200
        await first.body()
        await second.ask(EMBED, path="/v1/embeddings")
        await peer.answer(whole({}))
        assert await second.status() == 200


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (whole({}), {"status": 200, "stream": False}),
        (STREAM_HEAD + piece(b"data: 1\n\n") + LAST_PIECE, {"status": 200, "stream": True}),
        (whole({"error": "no"}, 400), {"status": 400, "stream": False, "error": "invalid_request", "message": "no"}),
    ],
)
async def test_the_log(answer: bytes, expected: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "svir_proxy.requests")
    async with proxied(ALIAS, auth={"keys": [{"name": "ana", "key": "own-key"}]}) as proxy, proxy.client() as client:
        await client.ask(EMBED, path="/v1/responses", authorization="Bearer own-key")
        await (await proxy.server.accept()).answer(answer)
        assert await client.status() == expected["status"]
        await until(lambda: len(caplog.records) == 1)
    record: Any = caplog.records[0]
    known = {"ms", "request_id"}
    assert {name: value for name, value in record.told.items() if name not in known} == {
        "method": "POST",
        "path": "/v1/responses",
        "key": "ana",
        "backend": "b0",
        "model": "fast",
        "rewrites": "model=alias",
        **expected,
    }


@pytest.mark.parametrize(
    ("fed", "status", "rest"),
    [
        (None, 503, b'{"error":{"message":"The proxy was stopped'),
        (b"data: 1\n\n", 200, b'data: {"error":{"message":"The proxy was stopped'),
        (b"data: 1\n", 200, b""),
    ],
)
async def test_the_end_of_the_process(fed: bytes | None, status: int, rest: bytes) -> None:
    on = asyncio.Event()

    class Body(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            if fed is not None:
                yield fed
            await on.wait()

    app = create_app(
        settings(),
        httpx.MockTransport(
            lambda _: httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Body())
        ),
    )
    wire = Wire(body=b"{}")
    async with living(app):
        scope = http_scope("/v1/completions", "POST", content_type="application/json")
        task = asyncio.create_task(app(scope, wire.receive, wire.send))  # type: ignore[arg-type]
        await until(lambda: len(wire.sent) > 1 if fed else len(asyncio.all_tasks()) > 3)
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait((task,))
    assert wire.sent[0]["status"] == status
    assert wire.data.startswith((fed or b"") + rest)
    assert wire.sent[-1]["more_body"] == (not rest)
