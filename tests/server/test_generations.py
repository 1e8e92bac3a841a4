"""One configuration in the place of another: who is served by which, and what is given back when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import pytest

from svir_proxy.server.app import create_app
from svir_proxy.settings import Settings
from tests.server.support import (
    CHAT,
    COMPLETION,
    DONE,
    FINISH,
    LAST_PIECE,
    ROLE,
    STREAM,
    STREAM_HEAD,
    Wire,
    deltas,
    http_scope,
    listing,
    living,
    piece,
    settings,
    text,
    whole,
)
from tests.server.transport.raw_server import Peer, RawServer, soon, until

pytestmark = pytest.mark.usefixtures("leaves_nothing")

URL: Final = "http://server/v1"


@asynccontextmanager
async def servers() -> AsyncIterator[tuple[RawServer, RawServer]]:
    """Two model servers."""
    both = RawServer(), RawServer()
    for server in both:
        await server.start()
    try:
        yield both
    finally:
        for server in both:
            await server.stop()


def address(server: RawServer) -> str:
    return f"http://127.0.0.1:{server.port}"


class Asked:
    """A chat request to *app*, under way."""

    def __init__(self, app: Any, body: Mapping[str, Any]) -> None:
        self.wire = Wire(body=httpx.Request("POST", URL, json=body).content)
        scope = http_scope("/v1/chat/completions", "POST", content_type="application/json")
        self._task = asyncio.create_task(app(scope, self.wire.receive, self.wire.send))

    async def over(self) -> bytes:
        await soon(self._task)
        return self.wire.data


async def streaming(app: Any, server: RawServer) -> tuple[Asked, Peer]:
    """A stream through *app* that *server* has begun."""
    asked = Asked(app, STREAM)
    peer = await server.accept()
    await peer.answer(STREAM_HEAD + piece(text("a")))
    await until(lambda: bool(asked.wire.sent))
    return asked, peer


async def test_a_running_answer_ends_where_it_began_and_the_next_is_asked_of_the_new_server() -> None:
    async with servers() as (old, new):
        app = create_app(settings(address(old)))
        async with living(app):
            first, peer = await streaming(app, old)
            second, other = await streaming(app, old)
            app.reload(settings(address(new)))
            third = Asked(app, CHAT)
            await (await new.accept()).answer(whole(COMPLETION))
            assert b"one two" in await third.over()

            await peer.send(piece(text("b") + FINISH + DONE) + LAST_PIECE)
            assert deltas(await first.over()) == [ROLE, {"content": "a"}, {"content": "b"}, "stop", "[DONE]"]
            closing = asyncio.create_task(peer.gone())
            await asyncio.sleep(0)
            assert not closing.done(), "kept as long as the other stream needs its backend"

            await other.send(piece(text("c") + FINISH + DONE) + LAST_PIECE)
            assert deltas(await second.over())[-1] == "[DONE]"
            await soon(closing)
            await other.gone()
            assert (old.accepted, new.accepted) == (2, 1)


async def test_what_no_request_needs_is_closed_at_once() -> None:
    async with servers() as (old, new):
        app = create_app(settings(address(old)))
        async with living(app):
            asked = Asked(app, CHAT)
            peer = await old.accept()
            await peer.answer(whole(COMPLETION))
            await asked.over()
            app.reload(settings(address(new)))
            await peer.gone()


async def test_the_end_gives_back_every_generation() -> None:
    async with servers() as (old, new):
        app = create_app(settings(address(old)))
        async with living(app):
            first, peer = await streaming(app, old)
            app.reload(settings(address(new)))
            second, other = await streaming(app, new)
        await peer.gone()
        await other.gone()
        for asked in (first, second):
            assert deltas(await asked.over())[-1] == "stream_truncated"


def model_server(request: httpx.Request) -> httpx.Response:
    """Lists a model and answers chats."""
    return httpx.Response(200, json=listing("m") if request.method == "GET" else COMPLETION)


ORIGIN: Final = {"origin": "http://page"}
KEY: Final = {"authorization": "Bearer k1"}


@pytest.mark.parametrize(
    ("before", "after", "headers", "told"),
    [
        ({}, {"auth": {"keys": ["k1"]}}, {}, [(200, None), (401, None)]),
        ({"auth": {"keys": ["k1"]}}, {"auth": {"keys": ["k2"]}}, KEY, [(200, None), (401, None)]),
        ({}, {"server": {"allowed_hosts": ["svir.lan"]}}, {}, [(200, None), (403, None)]),
        ({}, {"server": {"max_request_bytes": 5}}, {}, [(200, None), (413, None)]),
        ({}, {"server": {"cors_origins": ["*"]}}, ORIGIN, [(200, None), (200, "*")]),
        ({"server": {"cors_origins": ["http://page"]}}, {}, ORIGIN, [(200, "http://page"), (200, None)]),
        ({}, {"backends": []}, {}, [(200, None), (503, None)]),
    ],
    ids=["keys from now on", "another key", "hosts", "sizes", "CORS from now on", "no CORS any more", "no backend"],
)
async def test_everything_is_as_the_new_settings_say(
    before: dict[str, Any], after: dict[str, Any], headers: dict[str, str], told: list[tuple[int, str | None]]
) -> None:
    app = create_app(settings(URL, **before), httpx.MockTransport(model_server))
    transport = httpx.ASGITransport(app)
    async with living(app), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8484") as client:
        seen = []
        for new in (None, after):
            if new is not None:
                app.reload(Settings.model_validate(settings(URL).model_dump() | new) if new else settings(URL))
            response = await client.post("/v1/chat/completions", json=CHAT, headers=headers)
            seen.append((response.status_code, response.headers.get("access-control-allow-origin")))
    assert seen == told


async def test_what_is_known_of_backends_that_have_not_changed_is_kept() -> None:
    asked: list[str] = []

    def network(request: httpx.Request) -> httpx.Response:
        body = request.content
        asked.append(f"{request.url.host} {request.method}{' with seed' if b'seed' in body else ''}")
        if b"seed" in body:
            return httpx.Response(400, json={"error": {"message": "unknown field: seed", "param": "seed"}})
        return model_server(request)

    before = settings("http://same", "http://other")
    app = create_app(before, httpx.MockTransport(network))
    transport = httpx.ASGITransport(app)
    async with living(app), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8484") as client:
        body = {**CHAT, "seed": 1}
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
        assert sorted(asked) == ["other GET", "same GET", "same POST", "same POST with seed"]
        for changed, now in (
            ("http://changed", ["changed GET", "same POST"]),
            (None, ["same POST", "same POST with seed"]),
        ):
            asked.clear()
            urls = ("http://same", changed) if changed else ("http://same",)
            app.reload(settings(*urls, backend=None if changed else {"strict": True}))
            assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
            assert sorted(asked) == now


async def test_a_backend_gets_no_more_at_a_time_because_two_generations_ask_it() -> None:
    limits = {"max_requests": 1, "max_waiting": 0}
    async with servers() as (server, _):
        app = create_app(settings(address(server), backend=limits))
        async with living(app):
            first, peer = await streaming(app, server)
            app.reload(settings(address(server), backend=limits, auth={"keys": []}))
            second = Asked(app, STREAM)
            assert b"max_requests" in await second.over()
            assert second.wire.sent[0]["status"] == 503
            await peer.send(piece(FINISH + DONE) + LAST_PIECE)
            await first.over()
            third, peer = await streaming(app, server)
            await peer.send(piece(FINISH + DONE) + LAST_PIECE)
            await third.over()


async def test_settings_that_cannot_be_served_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app(settings(URL), httpx.MockTransport(model_server))
    transport = httpx.ASGITransport(app)
    async with living(app), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8484") as client:

        def broken(*_: Any) -> None:
            raise OSError("no such certificate")

        with monkeypatch.context() as patched:
            patched.setattr("svir_proxy.server.app.Upstream", broken)
            with pytest.raises(OSError, match="no such certificate"):
                app.reload(settings("http://elsewhere"))
        response = await client.post("/v1/chat/completions", json=CHAT)
        assert (response.status_code, response.headers["x-svir-backend"]) == (200, "b0")
