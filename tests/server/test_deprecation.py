"""Models that are about to go say so with every answer."""

from __future__ import annotations

import logging
from typing import Any, Final

import httpx
import pytest

from svir_proxy.server.deprecation import Deprecation
from svir_proxy.server.http import Headers
from tests.server.support import CHAT, DONE, FINISH, STREAM, listing, serving, settings, text
from tests.server.test_failover import fleet, good

pytestmark = pytest.mark.usefixtures("leaves_nothing")

SSE: Final = {"content-type": "text/event-stream"}
NAMES: Final = {"old": "new", "gpt-*": "newer", "gpt-4*": None, "gpt-4o": "newest"}


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("new", None),
        ("", None),
        ("old", b"new"),
        ("older", None),
        ("gpt-3", b"newer"),
        ("gpt-4-turbo", b"true"),
        ("gpt-4o", b"newest"),
    ],
)
def test_the_more_exact_name_counts(model: str, told: bytes | None) -> None:
    headers: Headers = []
    Deprecation(NAMES).tell(model, None, headers)
    assert headers == ([] if told is None else [(b"x-ai-model-deprecated", told)])


def test_the_log_tells_of_each_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    deprecation = Deprecation(NAMES, lambda: now[0])
    for at, model, key in [
        (0, "old", "app"), (1, "old", "app"), (2, "gpt-4-x", None), (3599, "old", "ci"), (3601, "old", "ci"),
        (3602, "gpt-4-y", None), (3603, "gpt-3", None), (3604, "new", None),
    ]:  # fmt: skip
        now[0] = at
        deprecation.tell(model, key, [])
    assert [record.getMessage() for record in caplog.records] == [
        "the deprecated model 'old' is asked for, the last time with the key 'app'; use 'new' instead",
        "the deprecated model 'gpt-4*' is asked for, the last time without a key",
        "the deprecated model 'old' is asked for, the last time with the key 'ci'; use 'new' instead",
        "the deprecated model 'gpt-4*' is asked for, the last time without a key",
        "the deprecated model 'gpt-*' is asked for, the last time without a key; use 'newer' instead",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


REQUESTS: Final[list[tuple[str, dict[str, Any], int]]] = [
    # path, body, what the server answers with
    ("chat/completions", CHAT, 200),
    ("chat/completions", STREAM, 200),
    ("chat/completions", CHAT, 500),
    ("chat/completions", STREAM, 429),
    ("embeddings", {"model": "m", "input": "x"}, 200),
    ("embeddings", {"model": "m", "input": "x"}, 503),
]


def server(status: int, **headers: str) -> Any:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=listing("m", "other"))
        if status != 200:
            return httpx.Response(status, json={"error": {"message": "no"}}, headers=headers)
        if request.url.path.endswith("embeddings"):
            return httpx.Response(200, json={"data": []}, headers=headers)
        return httpx.Response(200, headers=SSE | headers, content=text("one") + FINISH + DONE)

    return answer


@pytest.mark.parametrize(("path", "body", "status"), REQUESTS)
async def test_every_answer_of_the_model_has_the_header(path: str, body: dict[str, Any], status: int) -> None:
    async with serving(settings(rules={"deprecated": {"m": "m2"}}), server(status)) as client:
        response = await client.post(f"/v1/{path}", json=body)
        other = await client.post(f"/v1/{path}", json=body | {"model": "other"})
        listed = await client.get("/v1/models")
    assert (response.status_code == 200) == (status == 200)
    assert response.headers.get_list("x-ai-model-deprecated") == ["m2"]
    assert "x-ai-model-deprecated" not in other.headers
    assert [model["id"] for model in listed.json()["data"]] == ["m", "other"], "it is there as long as it is there"


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
@pytest.mark.parametrize(
    ("profile", "rules", "told"),
    [
        ("generic", {}, []),
        ("ai-server", {}, ["theirs"]),
        ("ai-server", {"deprecated": {"m": "ours"}}, ["ours"]),
    ],
)
async def test_a_server_that_tells_it_is_passed_on(
    request_: tuple[str, dict[str, Any], int], profile: str, rules: dict[str, Any], told: list[str]
) -> None:
    path, body, status = request_
    headers = {"X-AI-Model-Deprecated": "theirs", "x-other": "1"}
    async with serving(settings(profile=profile, rules=rules), server(status, **headers)) as client:
        response = await client.post(f"/v1/{path}", json=body)
    assert response.headers.get_list("x-ai-model-deprecated") == told
    assert "x-other" not in response.headers


@pytest.mark.parametrize("rules", [{}, {"answers": [{"name": "r", "pattern": "zzz", "action": "block"}]}])
async def test_of_several_servers_the_one_that_answers_tells(rules: dict[str, Any]) -> None:
    profiles = {number: {"profile": "ai-server"} for number in range(2)}
    async with fleet(2, profiles, sections={"rules": rules}) as servers, servers.client() as client:
        await client.ask(CHAT)
        failed = b"HTTP/1.1 503 X\r\nx-ai-model-deprecated: first\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        await (await servers.asked(0)).send(failed)
        answer, _ = good(CHAT)
        await (await servers.asked(1)).send(answer.replace(b"\r\n", b"\r\nX-AI-Model-Deprecated: second\r\n", 1))
        assert await client.status() == 200
        assert client.headers["x-ai-model-deprecated"] == "second"
