"""Who may read the metrics, and where they are."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import httpx
import pytest

from svir_proxy.server.app import create_app
from svir_proxy.settings import Settings
from tests.server.support import CHAT, COMPLETION, living, serving, settings

KEY: Final = "a-key-for-prometheus"
OWN: Final = {"metrics": {"key": KEY}}
HASHED: Final = {"metrics": {"sha256": hashlib.sha256(KEY.encode()).hexdigest()}}
CLIENTS: Final = {"auth": {"keys": ["a-key-of-a-client"]}}
PUBLIC: Final = {**CLIENTS, "server": {"host": "0.0.0.0"}}


def shown(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


CLIENT: Final = shown("a-key-of-a-client")


@pytest.mark.parametrize(
    ("sections", "headers", "status"),
    [
        ({}, {}, 200),
        ({}, {"host": "elsewhere.example"}, 403),
        ({"metrics": {"enabled": False}}, {}, 404),
        ({"metrics": {"port": 0}}, {}, 404),
        # a key of its own, and no other
        (OWN, {}, 401),
        (OWN, shown("wrong"), 401),
        (OWN, shown(KEY), 200),
        (HASHED, shown(KEY), 200),
        (HASHED, shown("wrong"), 401),
        (OWN, {**shown(KEY), "host": "elsewhere.example"}, 403),
        ({**OWN, **CLIENTS}, CLIENT, 401),
        ({**OWN, **CLIENTS}, shown(KEY), 200),
        # without one, what the other routes ask for
        (CLIENTS, {}, 401),
        (CLIENTS, CLIENT, 200),
        # where other machines reach the proxy
        (PUBLIC, CLIENT, 404),
        ({**PUBLIC, **OWN}, CLIENT, 401),
        ({**PUBLIC, **OWN}, shown(KEY), 200),
        ({**PUBLIC, "metrics": {"key": KEY, "enabled": False}}, CLIENT, 404),
        ({**PUBLIC, "metrics": {"port": 0}}, CLIENT, 404),
    ],
)
async def test_who_may_read_them(sections: dict[str, Any], headers: dict[str, str], status: int) -> None:
    async with serving(settings(**sections)) as client:
        answers = [await client.get(path, headers=headers) for path in ("/metrics", "/v1/metrics")]
        # The key opens nothing else.
        other = await client.get("/v1/models", headers=shown(KEY))
    assert [answer.status_code for answer in answers] == [status] * 2
    assert all(answer.headers["x-request-id"] for answer in answers)
    assert all(("svir_requests_total" in answer.text) == (status == 200) for answer in answers)
    assert (other.status_code == 401) == ("auth" in sections)
    assert not any(KEY in answer.text for answer in answers)


async def test_as_other_routes_it_answers_head_and_refuses_what_is_none() -> None:
    async with serving(settings()) as client:
        head, post = await client.head("/metrics"), await client.post("/metrics")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert (post.status_code, post.headers["allow"]) == (405, "GET, HEAD")
    assert post.json()["error"]["message"] == "POST is not answered here. Use GET."


async def test_requests_are_in_it_under_names_that_somebody_gave() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=COMPLETION)

    async with serving(settings(backend={"models": {"fast": "m"}}), answer) as client:
        for model in ("fast", "made up", "made up too"):
            response = await client.post("/v1/chat/completions", json={**CHAT, "model": model})
            assert response.status_code == 200
        await client.get("/nothing")
        text = (await client.get("/metrics")).text
    requests = sorted(line.partition("{")[2] for line in text.splitlines() if line.startswith("svir_requests_total{"))
    assert requests == [
        'endpoint="chat/completions",backend="b0",model="fast",status="200"} 1',
        'endpoint="chat/completions",backend="b0",model="other",status="200"} 2',
        'endpoint="other",backend="",model="",status="404"} 1',
    ]
    assert 'svir_open_requests{backend=""} 0\n' in text, "who asks does not count itself"


async def test_counts_stay_when_the_configuration_changes() -> None:
    app = create_app(settings())
    transport = httpx.ASGITransport(app)
    async with living(app), httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for changed in ({}, {"streaming": {"keepalive": 1}}, {"metrics": {"enabled": False}}, {}):
            app.reload(settings(**changed))
            await client.get("/nothing")
        text = (await client.get("/metrics")).text
    assert 'svir_requests_total{endpoint="other",backend="",model="",status="404"} 3\n' in text, "off is off"


# ---------------------------------------------------------------- at an address of their own


async def apart(configured: Settings, method: str, path: str, **headers: str) -> httpx.Response:
    app = create_app(configured)
    transport = httpx.ASGITransport(app.apart)
    async with living(app), httpx.AsyncClient(transport=transport, base_url="http://localhost:9464") as client:
        return await client.request(method, path, headers=headers)


@pytest.mark.parametrize(
    ("sections", "method", "path", "headers", "status"),
    [
        ({}, "GET", "/metrics", {}, 200),
        ({}, "HEAD", "/metrics", {}, 200),
        ({}, "GET", "/healthz", {}, 200),
        ({}, "GET", "/v1/models", {}, 404),
        ({}, "POST", "/metrics", {}, 405),
        ({}, "GET", "/metrics", {"host": "elsewhere.example"}, 403),
        ({}, "GET", "/healthz", {"host": "elsewhere.example"}, 200),
        ({"server": {"allowed_hosts": ["elsewhere.example"]}}, "GET", "/metrics", {"host": "elsewhere.example:1"}, 200),
        ({"metrics": {"port": 0, "host": "0.0.0.0"}}, "GET", "/metrics", {"host": "elsewhere.example"}, 200),
        (CLIENTS, "GET", "/metrics", {}, 200),
        ({"metrics": {"port": 0, "key": KEY}}, "GET", "/metrics", {}, 401),
        ({"metrics": {"port": 0, "key": KEY}}, "GET", "/metrics", shown(KEY), 200),
        ({"metrics": {"port": 0, "key": KEY}}, "GET", "/healthz", {}, 200),
        (PUBLIC, "GET", "/metrics", {}, 200),
    ],
)
async def test_what_the_address_of_their_own_answers(
    sections: dict[str, Any], method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer = await apart(settings(**{"metrics": {"port": 0}, **sections}), method, path, **headers)
    assert answer.status_code == status
    assert answer.headers["x-request-id"]
    assert ("svir_requests_total" in answer.text) == (status == 200 and (method, path) == ("GET", "/metrics"))
    if status >= 400:
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert ("allow" in answer.headers) == (status == 405)
