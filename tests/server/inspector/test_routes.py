"""The inspector over HTTP: who gets in, what a browser is told, and what ends a feed."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Final

import httpx
import pytest

from svir_proxy.server.app import create_app
from svir_proxy.server.inspector import PATH
from svir_proxy.server.inspector.feed import Feed
from svir_proxy.server.inspector.files import GUARDS, TYPES, load
from tests.server.inspector.support import EVENTS, viewing
from tests.server.support import (
    CHAT,
    DONE,
    LAST_PIECE,
    STREAM,
    STREAM_HEAD,
    Wire,
    http_scope,
    living,
    piece,
    proxied,
    serving,
    settings,
    text,
)
from tests.server.transport.raw_server import soon, until

KEY: Final = "key-of-the-inspector"
LOCKED: Final[dict[str, Any]] = {"inspector": {"key": KEY}}


# ----------------------------------------------------------------- who gets in


@pytest.mark.parametrize(
    ("sections", "is_on"),
    [
        ({}, True),
        ({"inspector": {"enabled": False}}, False),
        ({"auth": {"keys": ["client-key"]}}, False),
        ({"auth": {"keys": ["client-key"]}, **LOCKED}, True),
    ],
    ids=["open", "off", "keys", "keys and its own"],
)
async def test_it_is_there_where_it_may_be(sections: dict[str, Any], is_on: bool) -> None:
    async with serving(settings(**sections)) as client:
        response = await client.get(PATH, headers={"authorization": "Bearer client-key"})
    assert response.status_code == (404 if not is_on else 303 if "inspector" in sections else 200)


async def test_the_keys_of_clients_do_not_open_it() -> None:
    async with serving(settings(auth={"keys": ["client-key"]}, **LOCKED)) as client:
        for shown in ({}, {"authorization": "Bearer client-key"}, {"authorization": f"Bearer {KEY}"}):
            response = await client.get(EVENTS, headers=shown)
            assert response.status_code == 401
            assert response.json()["error"]["code"] == "invalid_api_key"


async def test_a_login_opens_it_and_a_logout_ends_that() -> None:
    async with serving(settings(**LOCKED)) as client:
        page = await client.get(PATH)
        assert (page.status_code, page.headers["location"]) == (303, f"{PATH}/login")
        assert "<form" in (await client.get(f"{PATH}/login")).text

        wrong = await client.post(f"{PATH}/login", data={"key": "client-key"})
        assert (wrong.status_code, wrong.headers["location"]) == (303, f"{PATH}/login#wrong")
        assert "set-cookie" not in wrong.headers

        right = await client.post(f"{PATH}/login", data={"key": KEY})
        assert (right.status_code, right.headers["location"]) == (303, PATH)
        cookie = right.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=Strict", f"Path={PATH}"} <= set(cookie.split("; "))
        assert KEY not in cookie
        assert (await client.get(PATH)).status_code == 200

        await client.post(f"{PATH}/logout")
        assert (await client.get(PATH)).status_code == 303


async def test_a_form_of_many_fields_is_a_wrong_key() -> None:
    async with serving(settings(**LOCKED)) as client:
        response = await client.post(f"{PATH}/login", data={f"f{number}": "x" for number in range(1000)})
        assert response.headers["location"].endswith("#wrong")
        large = await client.post(f"{PATH}/login", data={"key": "x" * 20_000})
        assert large.status_code == 413


async def test_whether_there_is_a_feed_can_be_asked() -> None:
    async with serving(settings(**LOCKED)) as client:
        assert (await client.head(EVENTS)).status_code == 401
        await client.post(f"{PATH}/login", data={"key": KEY})
        assert (await client.head(EVENTS)).status_code == 200


async def test_behind_tls_the_cookie_is_for_tls_only() -> None:
    async with serving(settings(**LOCKED)) as client:
        secure = await client.post(f"{PATH}/login", data={"key": KEY}, headers={"x-forwarded-proto": "https"})
    assert "Secure" in secure.headers["set-cookie"].split("; ")


async def test_who_tries_many_keys_is_told_to_wait() -> None:
    async with serving(settings(**LOCKED)) as client:
        answers = [await client.post(f"{PATH}/login", data={"key": f"k{number}"}) for number in range(11)]
    assert [answer.status_code for answer in answers] == [303] * 10 + [429]
    assert answers[-1].headers["retry-after"]


async def test_no_key_reaches_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(settings(**LOCKED)) as client:
        await client.post(f"{PATH}/login", data={"key": "almost-the-key"})
        await client.post(f"{PATH}/login", data={"key": KEY})
    assert "wrong key" in caplog.text
    assert "almost-the-key" not in caplog.text
    assert KEY not in caplog.text


# ----------------------------------------------------------------- other pages, other hosts

OTHERS: Final[dict[str, tuple[str, str, dict[str, str], int]]] = {
    "its own page": ("GET", EVENTS, {"sec-fetch-site": "same-origin"}, 200),
    "an address that was typed": ("GET", PATH, {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, 200),
    "a link": ("GET", PATH, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),
    "a script of another page": ("GET", EVENTS, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}, 403),
    "of another port": ("GET", EVENTS, {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}, 403),
    "a form of another page": ("POST", f"{PATH}/login", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 403),
    "a form of an old browser": ("POST", f"{PATH}/login", {"origin": "https://evil.test"}, 403),
    "a form from nowhere": ("POST", f"{PATH}/login", {"origin": "null"}, 403),
    "its own form in an old browser": ("POST", f"{PATH}/logout", {"origin": "http://localhost"}, 303),
    "a name of its own": ("GET", PATH, {"host": "evil.test"}, 403),
    "a script that asks whether it may": ("OPTIONS", EVENTS, {"sec-fetch-site": "cross-site", "origin": "https://evil.test"}, 403),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
async def test_another_page_gets_nothing(name: str) -> None:
    method, path, headers, status = OTHERS[name]
    app = create_app(settings(server={"cors_origins": ["*"]}))
    wire = Wire()
    async with living(app):
        if status == 200 and path == EVENTS:
            wire.gone.set()
        await soon(app(http_scope(path, method, **headers), wire.receive, wire.send))
    assert wire.sent[0]["status"] == status
    assert not any(key.startswith(b"access-control") for key, _ in wire.sent[0]["headers"])


@pytest.mark.parametrize("path", ["", "/login", "/inspector.js", "/inspector.css", "/icon.svg", "/nothing", "/events"])
async def test_every_answer_has_its_guards(path: str) -> None:
    async with serving(settings(**LOCKED)) as client:
        response = await client.get(PATH + path)
    for key, value in GUARDS:
        assert response.headers[key.decode()] == value.decode()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
async def test_other_methods_are_refused(method: str) -> None:
    async with serving(settings()) as client:
        response = await client.request(method, PATH)
    assert (response.status_code, response.headers["allow"]) == (405, "GET")
    assert response.json()["error"]["code"] == "method_not_allowed"


async def test_what_is_not_there_is_said() -> None:
    async with serving(settings()) as client:
        for path in ("/nothing", "/static/inspector.js", "/../routes.py", "/inspector.html", "events", "x/"):
            response = await client.get(PATH + path)
            assert (response.status_code, response.json()["error"]["code"]) == (404, "unknown_url")


async def test_where_no_key_is_asked_for_there_is_no_login() -> None:
    async with serving(settings()) as client:
        for response in (await client.get(f"{PATH}/login"), await client.post(f"{PATH}/login", data={"key": "x"})):
            assert (response.status_code, response.headers["location"]) == (303, PATH)


@pytest.mark.parametrize("name", sorted(set(TYPES) - {"inspector.html", "login.html"}))
async def test_a_file_is_sent_once(name: str) -> None:
    async with serving(settings()) as client:
        first = await client.get(f"{PATH}/{name}")
        again = await client.get(f"{PATH}/{name}", headers={"if-none-match": first.headers["etag"]})
        head = await client.head(f"{PATH}/{name}")
    assert (first.status_code, first.content, first.headers["content-type"]) == (200, load(name).content, TYPES[name])
    assert (again.status_code, again.content) == (304, b"")
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", first.headers["etag"])


async def test_a_fault_of_its_own_is_told_and_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: str) -> Any:
        raise OSError("the disk is gone")

    monkeypatch.setattr("svir_proxy.server.inspector.routes.load", broken)
    async with serving(settings()) as client:
        response = await client.get(PATH)
    assert response.status_code == 500
    assert "the disk" not in response.text
    assert "the disk is gone" in caplog.text


# ----------------------------------------------------------------- the feed


async def test_a_viewer_learns_what_was_before_and_what_comes() -> None:
    async with proxied() as proxy, proxy.client() as client:
        async with viewing(proxy):
            assert (await client.answer({}))[0] == 400
        async with viewing(proxy) as page:
            assert page.hello["workers"] == 1
            assert [backend["name"] for backend in page.state["backends"]] == ["b0"]
            assert page.requests[1]["summary"]["status"] == 400
            await client.answer({})
            assert (await page.over(2))["summary"]["error"]["kind"] == "invalid_request"


async def test_it_does_not_show_itself() -> None:
    async with proxied() as proxy, viewing(proxy) as page, proxy.client() as client:
        await client.ask(b"", PATH, "GET")
        assert await client.status() == 200
        async with proxy.client() as other:
            await other.answer({})
            await page.over(1)
        assert page.requests[1]["summary"]["path"] == "/v1/chat/completions"


async def test_a_viewer_who_leaves_is_counted_no_more(caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(settings())
    wire = Wire()
    async with living(app):
        recorder = app._current.inspector.recorder  # type: ignore[union-attr]
        task = asyncio.create_task(app(http_scope(EVENTS), wire.receive, wire.send))
        await until(lambda: b"event: ready" in wire.data)
        assert len(recorder._viewers) == 1
        wire.gone.set()
        await soon(task)
        assert not recorder._viewers
    assert caplog.text == ""


async def test_the_end_of_the_process_ends_the_feed() -> None:
    app = create_app(settings())
    wire = Wire()
    async with living(app):
        task = asyncio.create_task(app(http_scope(EVENTS), wire.receive, wire.send))
        await until(lambda: b"event: ready" in wire.data)
        app.drain()
        await soon(task)
    assert wire.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_a_reload_ends_the_feed_and_keeps_what_it_told() -> None:
    configured = settings()
    app = create_app(configured)
    async with (
        living(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client,
    ):
        before = Wire()
        task = asyncio.create_task(app(http_scope(EVENTS), before.receive, before.send))
        await until(lambda: b"event: ready" in before.data)
        await client.post("/v1/chat/completions", json={})
        app.reload(settings())
        await soon(task)
        after = Wire()
        task = asyncio.create_task(app(http_scope(EVENTS), after.receive, after.send))
        await until(lambda: b"event: ready" in after.data)
        assert b'"path":"/v1/chat/completions"' in after.data
        app.reload(settings(inspector={"enabled": False}))
        await soon(task)
        assert (await client.get(PATH)).status_code == 404


async def test_a_slow_viewer_holds_no_stream_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A viewer that reads nothing, streams of megabytes beside it; then the viewer reads, and is right again."""
    feeds: list[Feed] = []

    class Seen(Feed):
        def __init__(self) -> None:
            super().__init__()
            feeds.append(self)

    monkeypatch.setattr("svir_proxy.server.inspector.recorder.Feed", Seen)
    answer = STREAM_HEAD + b"".join(piece(text("x" * 3000)) for _ in range(60)) + piece(DONE) + LAST_PIECE
    async with proxied(inspector={"show_prompts": True}) as proxy, proxy.client(receive_buffer=4096) as slow:
        await slow.ask(b"", EVENTS, "GET")
        assert await slow.status() == 200
        async with proxy.client() as client:
            await client.ask(STREAM)
            upstream = await proxy.server.accept()
            while True:
                await upstream.answer(answer)
                assert await client.status() == 200
                assert len(await client.rest()) > 150_000
                if feeds[0].is_behind:
                    break
                await client.ask(STREAM)
        data = b""
        while b'"was_behind":true' not in data[-1000:]:
            data += await slow.piece()


async def test_what_goes_to_the_page_is_json_on_one_line() -> None:
    async with proxied(inspector={"show_prompts": True}) as proxy, viewing(proxy) as page, proxy.client() as client:
        hostile = "</script>\n\ndata: {}\r\n\u2028event: hello"
        await client.answer(CHAT | {"messages": [{"role": hostile}], "n": 5, "model": hostile})
        request = await page.over(1)
    assert page.hello["version"]
    assert json.dumps(request)
