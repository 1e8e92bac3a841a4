"""The routes as a client meets them: envelopes, ids, paths as people write them, health, and the end of the process."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any, Final

import httpx
import pytest

import svir_proxy
from svir_proxy.conform.dialect import check_error
from svir_proxy.server.app import create_app
from svir_proxy.server.chat import Chat
from tests.server.support import (
    ANSWER,
    CHAT,
    COMPLETION,
    STREAM,
    STREAM_HEAD,
    Wire,
    deltas,
    http_scope,
    listing,
    living,
    piece,
    proxied,
    serving,
    settings,
    text,
    whole,
)
from tests.server.transport.raw_server import soon, until

pytestmark = pytest.mark.usefixtures("leaves_nothing")

URL: Final = "http://server/v1"
LISTED: Final = {"data": [{"id": "org/qwen"}, {"id": "/models/tiny.gguf"}, {"id": "nomic-embed"}]}


def model_server(request: httpx.Request) -> httpx.Response:
    """Lists models and answers chats."""
    return httpx.Response(200, json=LISTED if request.method == "GET" else COMPLETION)


def refused(request: httpx.Request) -> httpx.Response:
    """There is no server."""
    raise httpx.ConnectError(f"cannot connect to {request.url.host}:81: refused")


def said(response: httpx.Response) -> tuple[int, str | None, str]:
    """Status, code and message of an error; asserts that it is a proper one."""
    assert check_error(response.content) == []
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    error = response.json()["error"]
    return response.status_code, error["code"], error["message"]


JSON: Final = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("request_line", "content", "headers", "status", "code", "words"),
    [
        ("GET /", b"", {}, 404, "unknown_url", "There is no '/' here. This proxy answers POST /v1/chat/comp"),
        ("POST /v1/nothing", b"{}", JSON, 404, "unknown_url", "There is no '/v1/nothing' here."),
        ("POST /v1/v1/chat/completions", b"{}", JSON, 404, "unknown_url", "the base URL has /v1 twice"),
        ("GET /v1/v1/models", b"", {}, 404, "unknown_url", "the base URL has /v1 twice"),
        ("GET /v1//v1", b"", {}, 404, "unknown_url", "the base URL has /v1 twice"),
        ("GET /v1", b"", {}, 404, "unknown_url", "There is no '/v1' here. This"),
        ("GET /v1/chat/completions", b"", {}, 405, "method_not_allowed", "GET is not answered here. Use POST."),
        ("HEAD /healthy", b"", {}, 404, None, ""),
        ("POST /v1/models", b"{}", JSON, 405, "method_not_allowed", "POST is not answered here. Use GET."),
        ("DELETE /v1/models/org/qwen", b"", {}, 405, "method_not_allowed", "DELETE is not answered here. Use GET."),
        ("POST /v1/chat/completions", b"{}", {}, 415, None, "application/json, and the request has none"),
        ("POST /v1/chat/completions", b"{}", {"content-type": "text/plain"}, 415, None, "not 'text/plain'"),
        ("POST /v1/chat/completions", b"{}", JSON | {"content-encoding": "gzip"}, 415, None, "'gzip' is not read"),
        ("POST /v1/chat/completions", b"{", JSON, 400, "invalid_json", "not valid JSON"),
        ("POST /v1/chat/completions", b"[]", JSON, 400, "invalid_json", "must be a JSON object, not a list"),
        ("POST /v1/chat/completions", b"{}", JSON, 400, None, "'messages' is required"),
        ("POST /v1/chat/completions", b" " * 201, JSON, 413, "request_too_large", "200 bytes"),
        ("GET /v1/models/qwen", b"", {}, 404, "model_not_found", "Did you mean 'org/qwen'"),
        ("GET /v1/models", b"", {"host": "evil.example"}, 403, "forbidden_host", "'evil.example'"),
    ],
)
async def test_refusals(
    request_line: str, content: bytes, headers: dict[str, str], *, status: int, code: str | None, words: str
) -> None:
    method, path = request_line.split()
    configured = settings(URL, server={"max_request_bytes": 200})
    async with serving(configured, model_server) as client:
        response = await client.request(method, path, content=content, headers=headers)
    if method == "HEAD":
        assert (response.status_code, response.content) == (404, b"")
        return
    assert said(response)[:2] == (status, code)
    assert words in said(response)[2]
    assert response.headers["x-should-retry"] == "false"
    if status == 405:
        assert response.headers["allow"] == ("POST" if "chat" in path else "GET, HEAD")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/chat/completions",
        "/v1/chat/completions/",
        "//v1/chat/completions",
        "/v1//chat/completions",
        "//chat/completions//",
    ],
)
async def test_base_urls_are_written_in_many_ways(path: str) -> None:
    async with serving(settings(URL), model_server) as client:
        response = await client.post(f"http://127.0.0.1:8484{path}", json=CHAT)
    assert (response.status_code, response.json()["choices"][0]["message"]["content"]) == (200, "one two")
    assert response.headers["x-svir-backend"] == "b0"


@pytest.mark.parametrize("media", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/x+json"])
async def test_json_by_any_name(media: str) -> None:
    async with serving(settings(URL), model_server) as client:
        response = await client.post("/v1/chat/completions", json=CHAT, headers={"content-type": media})
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/v1/models", ["fast", "org/qwen", "tiny.gguf"]),
        ("/models/", ["fast", "org/qwen", "tiny.gguf"]),
        ("/v1/models?all=0", ["fast", "org/qwen", "tiny.gguf"]),
        ("/v1/models?all=true", ["fast", "org/qwen", "tiny.gguf", "nomic-embed"]),
        ("/v1/models?x=y&all=1", ["fast", "org/qwen", "tiny.gguf", "nomic-embed"]),
        ("/v1/models/org/qwen", "org/qwen"),
        ("/v1/models/org%2Fqwen", "org/qwen"),
        ("/models/fast", "fast"),
        ("/v1/models/tiny.gguf/", "tiny.gguf"),
        ("/v1/models//models/tiny.gguf", "tiny.gguf"),
        ("/v1/models/nomic-embed", "nomic-embed"),
    ],
)
async def test_models(path: str, shown: Any) -> None:
    configured = settings(URL, backend={"models": {"fast": "org/qwen"}})
    async with serving(configured, model_server) as client:
        response = await client.get(path)
        head = await client.head(path)
    assert response.status_code == 200
    body = response.json()
    if isinstance(shown, list):
        assert body["object"] == "list"
        assert [entry["id"] for entry in body["data"]] == shown
        assert all(set(entry) == {"id", "object", "created", "owned_by"} for entry in body["data"])
    else:
        assert (body["id"], body["object"]) == (shown, "model")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == response.headers["content-length"]


async def test_models_of_a_server_that_is_away() -> None:
    async with serving(settings(URL), refused) as client:
        response = await client.get("/v1/models")
    assert said(response)[:2] == (502, "upstream_unreachable")


@pytest.mark.parametrize(
    ("shown", "kept"),
    [
        ("abc-1.2_X", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("a b", False),
        ("a\x00", False),
        ("é", False),
        ("", False),
    ],
)
async def test_request_ids(shown: str, kept) -> None:
    raw = [(b"host", b"localhost"), (b"x-request-id", shown.encode("latin-1"))]
    app = create_app(settings(URL))
    async with living(app):
        for path in ("/healthz", "/nothing"):
            wire = Wire()
            await app({**http_scope(path), "headers": raw}, wire.receive, wire.send)  # type: ignore[arg-type]
            given = dict(wire.sent[0]["headers"])[b"x-request-id"].decode()
            assert (given == shown) == kept
            assert len(given) == 32 or kept


@pytest.mark.parametrize("path", ["/healthz", "/v1/healthz", "/healthz/"])
async def test_the_process_is_up(path: str) -> None:
    configured = settings(URL, auth={"keys": ["own-key"]})
    async with serving(configured, refused) as client:
        response = await client.get(path)
        head = await client.head(path)
    assert (response.status_code, response.json()) == (200, {"status": "ok", "version": svir_proxy.__version__})
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize(
    ("servers", "status", "backends"),
    [
        (["up"], 200, {"b0": "ok"}),
        (["up", "down"], 200, {"b0": "ok", "b1": "upstream_unreachable"}),
        (["down", "locked"], 503, {"b0": "upstream_unreachable", "b1": "upstream_auth_failed"}),
    ],
)
async def test_readiness(servers: list[str], status: int, backends: dict[str, str]) -> None:
    def network(request: httpx.Request) -> httpx.Response:
        if request.url.host == "down":
            return refused(request)
        return httpx.Response(200, json=LISTED) if request.url.host == "up" else httpx.Response(401)

    configured = settings(*(f"http://{name}:81" for name in servers), auth={"keys": ["own-key"]})
    async with serving(configured, network) as client:
        response = await client.get("/readyz")
        head = await client.head("/readyz")
    word = "ready" if status == 200 else "unready"
    assert (response.status_code, response.json()) == (status, {"status": word, "backends": backends})
    assert (head.status_code, head.content) == (status, b"")
    assert b":81" not in response.content, "nobody has to show a key for this"


async def test_nothing_is_ready_without_backends() -> None:
    configured = settings(URL).model_copy(update={"backends": []})
    async with serving(configured) as client:
        response = await client.get("/readyz")
        chat = await client.post("/v1/chat/completions", json=CHAT)
        models = await client.get("/v1/models")
    assert (response.status_code, response.json()) == (503, {"status": "unready", "backends": {}})
    assert said(chat)[:2] == (503, "upstream_unavailable")
    assert models.json() == {"object": "list", "data": []}


async def test_a_key_of_the_proxy_is_needed() -> None:
    configured = settings(URL, auth={"keys": ["own-key"]})
    async with serving(configured, model_server) as client:
        for method, path in (("GET", "/v1/models"), ("POST", "/v1/chat/completions"), ("GET", "/nothing")):
            response = await client.request(method, path, json=CHAT)
            assert said(response)[:2] == (401, "invalid_api_key")
        response = await client.post("/v1/chat/completions", json=CHAT, headers={"api-key": "own-key"})
    assert response.status_code == 200


async def test_browsers_of_listed_origins() -> None:
    configured = settings(URL, server={"cors_origins": ["http://app.example"]})
    preflight = {"origin": "http://app.example", "access-control-request-method": "POST"}
    async with serving(configured, model_server) as client:
        asked = await client.options(
            "/v1/chat/completions", headers=preflight | {"access-control-request-headers": "authorization"}
        )
        answered = await client.post("/v1/chat/completions", json=CHAT, headers={"origin": "http://app.example"})
        failed = await client.get("/nothing", headers={"origin": "http://app.example"})
        stranger = await client.get("/v1/models", headers={"origin": "http://evil.example"})
    assert asked.status_code == 200
    for response in (asked, answered, failed):
        assert response.headers["access-control-allow-origin"] == "http://app.example"
    assert "x-request-id" in answered.headers["access-control-expose-headers"]
    assert "access-control-allow-origin" not in stranger.headers


async def test_a_fault_of_the_proxy_itself(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(Chat, "__call__", broken)
    async with serving(settings(URL), model_server) as client:
        response = await client.post("/v1/chat/completions", json=CHAT, headers={"x-request-id": "the-id"})
    assert said(response)[:2] == (500, "internal_error")
    assert "the-id" in said(response)[2]
    assert "secret" not in response.text
    assert "request the-id failed" in caplog.text
    assert "a secret detail" in caplog.text


NAMES: Final[list[dict[str, str]]] = [{}, {}, {"x-request-id": "a"}, {"x-request-id": "a"}]


async def test_ids_of_answers_are_new_also_where_a_client_names_its_requests_alike() -> None:
    def nameless(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"choices": [{"message": {"content": "Hello!"}, "finish_reason": "stop"}]})

    async with serving(settings(URL), nameless) as client:
        answers = [await client.post("/v1/chat/completions", json=CHAT, headers=headers) for headers in NAMES]
    assert len({answer.json()["id"] for answer in answers}) == len(NAMES)


async def test_every_request_leaves_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "svir_proxy.requests")
    async with serving(settings(URL), model_server) as client:
        await client.post("/v1/chat/completions", json=CHAT, headers={"x-request-id": "the-id"})
        await client.get("/v1/models/none")
        await client.get("/readyz")  # probes come every few seconds: they are told at the level debug
    told = [record.told for record in caplog.records]  # type: ignore[attr-defined]
    assert [(line["method"], line["path"], line["status"]) for line in told] == [
        ("POST", "/v1/chat/completions", 200),
        ("GET", "/v1/models/none", 404),
    ]
    assert (told[0]["request_id"], told[0]["model"], told[0]["backend"]) == ("the-id", "m", "b0")
    assert told[1]["error"] == "model_not_found"


async def test_a_connection_survives_errors() -> None:
    refusals: list[tuple[dict[str, Any], int]] = [
        ({"path": "/v1/nothing"}, 404),
        ({"method": "GET"}, 405),
        ({"content_type": "text/plain"}, 415),
        ({"host": "evil.example"}, 403),
    ]
    async with proxied(server={"max_request_bytes": 100_000}) as proxy, proxy.client() as client:
        for more, status in refusals:
            for body in (b"{}", b"x" * 90_000):
                assert (await client.answer(body, **more))[0] == status
        assert (await client.answer(b"not json"))[0] == 400
        await client.ask(CHAT)
        peer = await proxy.server.accept()
        await peer.answer(whole({"error": {"message": "no"}}, 500))
        assert await client.status() == 502
        await client.body()
        await client.ask(STREAM)
        await peer.answer(STREAM_HEAD + piece(text("a") + b"data: {]\n\n"))
        assert await client.status() == 200
        assert deltas(await client.rest())[-1] == "upstream_bad_response"
        await client.ask(CHAT)
        await (await proxy.server.accept()).answer(whole(COMPLETION))
        assert await client.status() == 200


@pytest.mark.parametrize("body", [CHAT, STREAM], ids=["whole", "stream"])
@pytest.mark.parametrize("begun", [False, True])
async def test_a_request_that_the_end_of_the_process_cuts_off(
    body: dict[str, Any], begun, caplog: pytest.LogCaptureFixture
) -> None:
    """As uvicorn does it: the tasks that are left after the drain are cancelled, and not awaited."""
    caplog.set_level(logging.INFO, "svir_proxy.requests")
    asked = asyncio.Event()

    class Stalled(httpx.AsyncByteStream):
        closed = False

        async def __aiter__(self) -> Any:
            if begun:
                yield text("a")
            asked.set()
            await asyncio.Event().wait()

        async def aclose(self) -> None:
            self.closed = True

    stream = Stalled()
    app = create_app(settings(URL), httpx.MockTransport(lambda _: httpx.Response(200, stream=stream)))
    async with living(app):
        wire = Wire(body=httpx.Request("POST", URL, json=body).content)
        scope = http_scope("/v1/chat/completions", "POST", content_type="application/json")
        task = asyncio.create_task(app(scope, wire.receive, wire.send))  # type: ignore[arg-type]
        await soon(asked.wait())
        await until(lambda: bool(wire.sent) or not (begun and body is STREAM))
        task.cancel()
        await soon(task)
        await until(lambda: stream.closed)
    if begun and body is STREAM:
        assert wire.sent[0]["status"] == 200
        assert deltas(wire.data)[-1] == "upstream_unavailable"
    else:
        assert wire.sent[0]["status"] == 503
        assert dict(wire.sent[0]["headers"])[b"retry-after"] == b"1"
        assert check_error(wire.data) == []
    assert wire.sent[-1]["more_body"] is False
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.told["error"] == "upstream_unavailable"  # type: ignore[attr-defined]


async def test_the_end_closes_the_connections_to_the_servers() -> None:
    async with proxied() as proxy:
        async with proxy.client() as client:
            await client.ask(STREAM)
            peer = await proxy.server.accept()
            await peer.answer(STREAM_HEAD + piece(ANSWER) + b"0\r\n\r\n")
            assert await client.status() == 200
            await client.rest()
            await client.ask({**CHAT, "model": "other"})
            await peer.answer(whole(COMPLETION))
            assert await client.status() == 200
            assert proxy.server.accepted == 1, "kept for the next request"
        closing = asyncio.create_task(peer.gone())
        await asyncio.sleep(0)
        assert not closing.done()
    await soon(closing)


async def test_other_scopes_are_left_alone() -> None:
    wire = Wire()
    await create_app(settings(URL))({"type": "websocket"}, wire.receive, wire.send)  # type: ignore[arg-type]
    assert wire.sent == []


async def test_model_lists_do_not_depend_on_the_key_that_is_shown() -> None:
    seen: list[httpx.Request] = []

    def network(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=listing("m"))

    configured = settings(URL, auth={"keys": ["own-key"]})
    async with serving(configured, network) as client:
        await client.get(
            "/v1/models", headers={"authorization": "Bearer own-key", "cookie": "c", "x-forwarded-for": "1"}
        )
    assert set(seen[0].headers) == {"host", "accept", "accept-encoding", "authorization"}
    assert "own-key" not in str(seen[0].headers.raw)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_leaves_nothing_to_the_collector(stream: bool) -> None:
    """Else what it held, an image of 20 MB perhaps, would be held until the collector comes by."""
    async with proxied() as proxy, proxy.client() as client:
        peer = None
        try:
            for turn in range(3):
                if turn == 1:  # after one that made what is made once
                    gc.collect()
                    gc.set_debug(gc.DEBUG_SAVEALL)
                await client.ask({**CHAT, "stream": stream})
                peer = peer or await proxy.server.accept()
                await peer.answer(STREAM_HEAD + piece(ANSWER) + b"0\r\n\r\n" if stream else whole(COMPLETION))
                assert await client.status() == 200
                await (client.rest() if stream else client.body())
            gc.collect()
        finally:
            gc.set_debug(0)
            left = {type(found).__qualname__ for found in gc.garbage if type(found).__module__.startswith("svir_proxy")}
            gc.garbage.clear()
    assert left == set()
