"""What a key may do, as its holder meets it: every status and header of a limit, and what counts."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Final

import httpx
import openai
import pytest

from svir_proxy.server.app import create_app
from svir_proxy.server.quotas import access
from svir_proxy.server.quotas.access import Access
from svir_proxy.server.quotas.tokens import Meter
from svir_proxy.server.request_record import RequestRecord
from svir_proxy.settings import AuthSettings
from tests.server.support import (
    ANSWER,
    CHAT,
    COMPLETION,
    DONE,
    FINISH,
    LAST_PIECE,
    STREAM,
    STREAM_HEAD,
    Proxied,
    listing,
    living,
    piece,
    proxied,
    serving,
    settings,
    text,
    whole,
)
from tests.server.test_app import said
from tests.server.transport.raw_server import soon

pytestmark = pytest.mark.usefixtures("leaves_nothing")

NOON: Final = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()
USAGE: Final = {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42}
KEYS: Final = {"ana": "sk-ana", "bo": "sk-bo"}


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock that windows are told by."""
    moment = [NOON]
    monkeypatch.setattr(access, "time", SimpleNamespace(time=lambda: moment[0]))
    return moment


class Server:
    """A model server that counts 42 tokens for whatever it is asked, and remembers what it was."""

    def __init__(self, **answer: Any) -> None:
        self.asked: list[Any] = []
        self.answer = answer or {"json": COMPLETION | {"usage": USAGE}}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=listing("m", "mini", "large"))
        self.asked.append(json.loads(request.content))
        return httpx.Response(**{"status_code": 200, **self.answer})


class Client:
    """The two holders of keys, at one proxy."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.http = client

    async def ask(self, key: str = "ana", path: str = "chat/completions", **body: Any) -> httpx.Response:
        return await self.http.post(f"/v1/{path}", json={**CHAT, **body}, headers=_shown(key))

    async def get(self, path: str, key: str = "ana") -> httpx.Response:
        return await self.http.get(f"/v1/{path}", headers=_shown(key))


def _shown(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {KEYS[key]}"} if key else {}


@asynccontextmanager
async def proxy(server: Server, ana: dict[str, Any] | None = None, **auth: Any) -> AsyncIterator[Client]:
    """A proxy where *ana* is what the first of two keys may do."""
    keys = [{"name": "ana", "key": KEYS["ana"], **(ana or {})}, {"name": "bo", "key": KEYS["bo"]}]
    async with serving(settings("http://server/v1", auth={"keys": keys, **auth}), server) as client:
        yield Client(client)


def limited(response: httpx.Response) -> dict[str, str]:
    """The headers about limits."""
    return {
        name.removeprefix("x-ratelimit-"): value
        for name, value in response.headers.items()
        if name.startswith(("x-ratelimit", "retry-after", "x-should-retry"))
    }


# ----------------------------------------------------------------- every status and header of a limit

FINAL: Final = {"x-should-retry": "false"}
LAST: Final = {"limit-requests": "2", "remaining-requests": "0"}

REFUSED: Final = {
    "requests in a minute": (
        {"limits": {"requests_per_minute": 2}}, 2,
        429, "rate_limit_exceeded",
        "has used 2 requests of the 2 that it may use in a minute (requests_per_minute). Try again in 60.0 s.",
        LAST | {"reset-requests": "1m30s", "retry-after": "60"},
    ),
    "tokens in a minute": (
        {"limits": {"tokens_per_minute": 40}}, 1,
        429, "rate_limit_exceeded",
        "has used 42 tokens of the 40 that it may use in a minute (tokens_per_minute). Try again in 62.9 s.",
        {"limit-tokens": "40", "remaining-tokens": "0", "reset-tokens": "1m59s", "retry-after": "60"},
    ),
    "requests in a day": (
        {"limits": {"requests_per_day": 2}}, 2,
        429, "quota_exceeded",
        "The key 'ana' has used 2 requests of the 2 that it may use in a day (requests_per_day).",
        LAST | {"reset-requests": "12h0m0s", "retry-after": "60", **FINAL},
    ),
    "tokens in a day": (
        {"limits": {"tokens_per_day": 42}}, 1,
        429, "quota_exceeded", "has used 42 tokens of the 42 that it may use in a day (tokens_per_day). Try again",
        {"limit-tokens": "42", "remaining-tokens": "0", "reset-tokens": "12h0m0s", "retry-after": "60", **FINAL},
    ),
    "requests in a month": (
        {"limits": {"requests_per_month": 2}}, 2,
        429, "quota_exceeded", "in a month (requests_per_month). Try again at 2026-12-01T00:00:00Z.",
        LAST | {"reset-requests": "12h0m0s", "retry-after": "60", **FINAL},
    ),
    "tokens in a month": (
        {"limits": {"tokens_per_month": 43}}, 2,
        429, "quota_exceeded", "has used 84 tokens of the 43 that it may use in a month (tokens_per_month).",
        {"limit-tokens": "43", "remaining-tokens": "0", "reset-tokens": "12h0m0s", "retry-after": "60", **FINAL},
    ),
    "the one that lasts longest is told": (
        {"limits": {"requests_per_minute": 2, "tokens_per_day": 84}}, 2,
        429, "quota_exceeded", "(tokens_per_day)",
        LAST | {"reset-requests": "1m30s", "limit-tokens": "84", "remaining-tokens": "0", "reset-tokens": "12h0m0s",
                "retry-after": "60", **FINAL},
    ),
    "a model that the key may not use": (
        {"models": ["mini", "fast-*"]}, 0,
        403, "model_not_allowed", "The key 'ana' may not use the model 'm'. It may use mini, fast-*.",
        FINAL,
    ),
    "no model at all": (
        {"models": []}, 0,
        403, "model_not_allowed", "The key 'ana' may not use the model 'm'. It may use none.",
        FINAL,
    ),
    "a key that is over": (
        {"expires": "2020-01-31"}, 0,
        401, "invalid_api_key", "The API key 'ana' expired at 2020-01-31T23:59:59Z.",
        FINAL,
    ),
}  # fmt: skip


@pytest.mark.parametrize("path", ["chat/completions", "embeddings"])
@pytest.mark.parametrize("what", REFUSED)
async def test_what_is_refused(what: str, path: str) -> None:
    ana, before, status, code, words, headers = REFUSED[what]
    server = Server()
    async with proxy(server, ana) as client:
        for _ in range(before):
            assert (await client.ask(path=path)).status_code == 200
        for _ in range(2):  # and what was refused has not counted
            response = await client.ask(path=path)
            assert said(response)[:2] == (status, code)
            assert words in said(response)[2]
            assert limited(response) == headers
            assert len(server.asked) == before
        assert (await client.ask("bo", path)).status_code == 200, "another key has limits of its own"


async def test_the_default_is_for_keys_without_limits_of_their_own() -> None:
    async with proxy(Server(), {"limits": {}}, limits={"requests_per_day": 1}) as client:
        assert [(await client.ask(key)).status_code for key in ("bo", "bo", "ana", "ana")] == [200, 429, 200, 200]


async def test_without_keys_all_clients_together_have_the_default() -> None:
    configured = settings("http://server/v1", auth={"limits": {"requests_per_day": 1}})
    async with serving(configured, Server()) as http:
        client = Client(http)
        assert (await client.ask("")).status_code == 200
        assert said(await client.ask(""))[2].startswith("This proxy has used 1 requests of the 1 ")


async def test_two_keys_of_one_name_are_one_holder() -> None:
    keys = [{"name": "ana", "key": KEYS[name], "limits": {"requests_per_day": 1}} for name in KEYS]
    async with serving(settings("http://server/v1", auth={"keys": keys}), Server()) as http:
        assert [(await Client(http).ask(key)).status_code for key in KEYS] == [200, 429]


async def test_what_is_left_is_told_unless_it_is_turned_off() -> None:
    limits = {"requests_per_minute": 10, "tokens_per_minute": 1000}
    async with proxy(Server(), {"limits": limits}) as client:
        first, second = await client.ask(), await client.ask()
        assert limited(first) == {
            "limit-requests": "10", "remaining-requests": "9", "reset-requests": "1m0s",
            "limit-tokens": "1000", "remaining-tokens": "1000", "reset-tokens": "0s",
        }  # fmt: skip
        assert limited(second)["remaining-requests"] == "8"
        assert limited(second)["remaining-tokens"] == "958"
        assert limited(await client.ask("bo")) == {}
    async with proxy(Server(), {"limits": limits}, rate_headers=False) as client:
        assert limited(await client.ask()) == {}


async def test_it_goes_on_when_the_time_has_come(now: list[float]) -> None:
    async with proxy(Server(), {"limits": {"requests_per_minute": 1, "tokens_per_day": 50}}) as client:
        assert (await client.ask()).status_code == 200
        assert said(await client.ask())[1] == "rate_limit_exceeded"
        now[0] += 61
        assert (await client.ask()).status_code == 200
        now[0] += 120
        assert said(await client.ask())[1] == "quota_exceeded"
        now[0] += 12 * 3600
        assert (await client.ask()).status_code == 200


# ----------------------------------------------------------------- models


@pytest.mark.parametrize(
    ("models", "asked", "allowed"),
    [
        (["mini"], "mini", True),
        (["mini"], "minimal", False),
        (["mini"], "MINI", False),
        (["mini"], "m", False),
        (["m*"], "mini", True),
        (["*"], "anything/at all\n", True),
        (["a*z"], "abcz", True),
        (["a*z"], "az", True),
        (["a*z"], "abc", False),
        (["a.c"], "abc", False),
        (["org/*"], "org/qwen", True),
        (["org/*"], "other/org/qwen", False),
        ([], "", False),
        (["mini"], "", False),
        (["*"], "", True),
        (["a", "b*"], "bc", True),
        (["x*y"], "x" * 100_000, False),
    ],
)
def test_names_and_patterns(models: list[str], asked: str, *, allowed: bool) -> None:
    found = Access.of(AuthSettings.model_validate({"keys": [{"name": "ana", "key": "k", "models": models}]}), None)
    assert found is not None
    assert found.policies["ana"].may_use(asked) == allowed


async def test_lists_show_what_the_key_may_use_and_nobody_is_told_of_the_rest() -> None:
    async with proxy(Server(), {"models": ["mi*"]}) as client:
        listed = (await client.get("models")).json()["data"]
        assert [entry["id"] for entry in listed] == ["mini"]
        assert (await client.get("models/mini")).json()["id"] == "mini"
        for name in ("large", "no-such-model"):  # there or not, it is the same
            assert said(await client.get(f"models/{name}"))[:2] == (403, "model_not_allowed")
        assert said(await client.get("models/m"))[1] == "model_not_allowed"
        status, code, words = said(await client.get("models/mi"))
        assert (status, code) == (404, "model_not_found")
        assert "mini" in words
        assert "large" not in words
        assert [entry["id"] for entry in (await client.get("models", "bo")).json()["data"]] == ["m", "mini", "large"]


async def test_a_model_that_is_gone_is_told_without_the_names_of_others() -> None:
    gone = {"status_code": 404, "json": {"error": {"message": "model 'mini' not found"}}}
    async with proxy(Server(**gone), {"models": ["mi*"]}) as client:
        await client.get("models")
        for body in ({}, {"stream": True}):
            words = said(await client.ask(model="mini", **body))[2]
            assert "not found" in words
            assert "'m'" not in words
        assert "'m'" in said(await client.ask("bo", model="mini"))[2]


async def test_a_deprecated_model_names_no_successor_that_the_key_may_not_use() -> None:
    keys = [{"name": "ana", "key": KEYS["ana"], "models": ["mini"]}, {"name": "bo", "key": KEYS["bo"]}]
    rules = {"deprecated": {"mini": "large", "m": "large"}}
    async with serving(settings("http://server/v1", auth={"keys": keys}, rules=rules), Server()) as http:
        for path in ("chat/completions", "embeddings"):
            told = [
                await Client(http).ask(key, path, model=model)
                for key, model in (("ana", "mini"), ("ana", "m"), ("bo", "m"))
            ]
            assert [response.headers.get("x-ai-model-deprecated") for response in told] == ["true", None, "large"]


async def test_metrics_tell_of_all_models_and_so_nothing_to_who_may_use_some() -> None:
    async with proxy(Server(), {"models": ["mini"]}) as client:
        await client.get("models", "bo")
        await client.ask("bo", model="large")
        refused, read = await client.get("metrics"), await client.get("metrics", "bo")
    assert (refused.status_code, said(refused)[1]) == (403, "endpoint_not_allowed")
    assert "large" not in refused.text
    assert 'model="large"' in read.text


async def test_other_models_that_a_request_names_are_looked_at_too() -> None:
    async with proxy(Server(), {"models": ["mini"]}) as client:
        assert (await client.ask(model="mini", models=["mini"])).status_code == 200
        for models in (["mini", "large"], [None]):
            assert said(await client.ask(model="mini", models=models))[1] == "model_not_allowed"
        for field in ("fallbacks", "context_window_fallbacks", "content_policy_fallbacks"):
            for path, names in (
                ("chat/completions", ["large"]),
                ("chat/completions", "large"),
                ("embeddings", ["mini"]),
            ):
                response = await client.ask(path=path, model="mini", **{field: names})
                assert said(response)[1] == "model_not_allowed"
        assert (await client.ask("bo", model="mini", models=["large"])).status_code == 200
        # what passes through is not read, so there none are taken
        assert said(await client.ask(path="embeddings", model="mini", models=["mini"]))[1] == "model_not_allowed"
        assert (await client.ask(path="embeddings", model="mini")).status_code == 200
        assert (await client.ask("bo", path="embeddings", model="mini", models=["large"])).status_code == 200


# ----------------------------------------------------------------- what counts


async def used(client: Client, limit: int = 100_000) -> int:
    """The tokens that ana has used, which the next request shows."""
    return limit - int(limited(await client.ask())["remaining-tokens"])


TOKENS: Final = {"limits": {"tokens_per_day": 100_000}}
REPORTED: Final = ANSWER.replace(
    b"data: [DONE]", b"data: " + json.dumps({"choices": [], "usage": USAGE}).encode() + b"\n\ndata: [DONE]"
)
EVENTS: Final = {"content-type": "text/event-stream"}


@pytest.mark.parametrize(
    ("answer", "body", "tokens"),
    [
        ({"json": COMPLETION | {"usage": USAGE}}, CHAT, 42),
        ({"content": REPORTED, "headers": EVENTS}, STREAM, 42),
        # no report: a quarter of the bytes of the request, and the pieces of the answer
        ({"content": ANSWER, "headers": EVENTS}, STREAM, 18 + 2),
        ({"json": COMPLETION}, CHAT, 15 + 2),
        # the server refused it, or failed before it began: nothing was made
        ({"status_code": 400, "json": {"error": {"message": "no"}}}, CHAT, 0),
        ({"status_code": 500, "json": {"error": {"message": "no"}}}, CHAT, 0),
    ],
)
async def test_tokens_are_those_reported_or_about_as_many(
    answer: dict[str, Any], body: dict[str, Any], tokens: int
) -> None:
    async with proxy(Server(**answer), TOKENS) as client:
        await client.ask(**body)
        assert await used(client) == tokens


async def test_usage_is_asked_for_but_not_shown_to_who_did_not_ask() -> None:
    server = Server(content=REPORTED, headers=EVENTS)
    async with proxy(server, TOKENS) as client:
        plain = await client.ask(**STREAM, stream_options={"include_usage": False})
        assert b"usage" not in plain.content
        assert b'"total_tokens":42' in (await client.ask(**STREAM, stream_options={"include_usage": True})).content
        await client.ask("bo", **STREAM)
    assert [body.get("stream_options") for body in server.asked] == [
        {"include_usage": True},
        {"include_usage": True},
        None,
    ]


async def test_a_server_that_does_not_know_the_question_is_asked_without_it() -> None:
    class Strict(Server):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            if b"stream_options" in request.content:
                self.asked.append("refused")
                return httpx.Response(400, json={"error": {"message": "unknown field stream_options"}})
            return super().__call__(request)

    server = Strict(content=ANSWER, headers=EVENTS)
    async with proxy(server, TOKENS) as client:
        for _ in range(2):
            assert (await client.ask(**STREAM)).status_code == 200
    assert [body == "refused" for body in server.asked] == [True, False, False], "and that is remembered"


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        ({"json": {"data": [], "usage": {"prompt_tokens": 8, "total_tokens": 8}}}, 8),
        ({"json": {"data": []}}, 15),
        ({"content": b"data: {}\n\ndata: {}\n\n", "headers": EVENTS}, 15 + 2),
        ({"status_code": 404, "json": {"error": {"message": "no such endpoint"}}}, 0),
    ],
)
async def test_what_passes_through_counts_too(answer: dict[str, Any], tokens: int) -> None:
    async with proxy(Server(**answer), TOKENS) as client:
        await client.ask(path="embeddings")
        assert await used(client) == tokens


async def test_only_what_is_answered_for_models_is_counted() -> None:
    async with proxy(Server(), {"limits": {"requests_per_day": 1}}) as client:
        for path in ("models", "models/m"):
            assert (await client.get(path)).status_code == 200
        assert said(await client.ask(messages=[]))[0] == 400, "and what cannot be read is not"
        assert (await client.ask()).status_code == 200


# ----------------------------------------------------------------- over real connections


LIMITED: Final = {"limits": {"tokens_per_day": 100_000, "concurrent_requests": 1}}


async def remaining(proxy: Proxied, body: Any = CHAT, path: str = "/v1/chat/completions") -> int:
    """The tokens that are left, as the next request is told, whose answer counts none."""
    async with proxy.client() as client:
        await client.ask(body, path)
        await (await proxy.server.accept()).answer(whole({"error": {"message": "no"}}, 500))
        await client.status()
        await client.body()
        return int(client.headers["x-ratelimit-remaining-tokens"])


def quarter(body: Any) -> int:
    """A token for every four bytes of the request."""
    return -(-len(json.dumps(body)) // 4)


CALL: Final = {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required"}


@pytest.mark.parametrize(
    ("body", "sent", "made"),
    [
        pytest.param(STREAM, [], 0, id="before anything came"),
        pytest.param(STREAM, [text("a"), text("b")], 2, id="in the middle of a stream"),
        pytest.param(STREAM, [text("a" * 400)], 100, id="in the middle of a stream of large pieces"),
        pytest.param(CHAT, [text("a"), text("b")], 2, id="while a stream is gathered"),
        pytest.param(STREAM | CALL, [text("a"), text("b"), text("c")], 3, id="while an answer is held"),
    ],
)
async def test_who_leaves_early_has_used_what_came(body: dict[str, Any], sent: list[bytes], made: int) -> None:
    facts = {"overrides": {"request": {"stream": "always", "tool_choice": {"required": "ignored"}}}}
    async with proxied(facts, auth=LIMITED) as proxy:
        async with proxy.client() as client:
            await client.ask(body)
            peer = await proxy.server.accept()
            await peer.request()
            await peer.send(STREAM_HEAD + b"".join(map(piece, sent)))
            if body is STREAM and sent:
                assert await client.status() == 200
                await client.piece()
            else:
                for _ in range(200):  # nobody tells when the proxy has read what it keeps to itself
                    await asyncio.sleep(0)
            client.leave()
            await peer.gone()
        assert await remaining(proxy) == 100_000 - quarter(body) - made


@pytest.mark.parametrize(
    ("sent", "tokens"),
    [
        pytest.param([b"data: {}\n\n", b"data: {}\n\n"], quarter(STREAM) + 2, id="events"),
        pytest.param(
            [gzip.compress(b'data: {"usage": {"prompt_tokens": 5, "completion_tokens": 6}}\n\n')], 11, id="gzip"
        ),
    ],
)
async def test_who_leaves_an_answer_that_passes(sent: list[bytes], tokens: int) -> None:
    head = STREAM_HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n") if tokens == 11 else STREAM_HEAD
    async with proxied(auth=LIMITED) as proxy:
        async with proxy.client() as client:
            await client.ask(STREAM, "/v1/completions")
            peer = await proxy.server.accept()
            await peer.request()
            await peer.send(head + b"".join(map(piece, sent)))
            assert await client.status() == 200
            got = 0
            while got < len(sent):
                got += (await client.piece()).count(b"data:")
            client.leave()
            await peer.gone()
        assert await remaining(proxy) == 100_000 - tokens


async def test_a_request_of_unknown_length_counts_what_came_of_it() -> None:
    async with proxied(auth=LIMITED) as proxy:
        async with proxy.client() as client:
            data = json.dumps(CHAT | {"input": "x" * 3900}).encode()
            client.write(
                b"POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                b"transfer-encoding: chunked\r\n\r\n" + piece(data) + LAST_PIECE
            )
            await (await proxy.server.accept()).answer(whole({"data": []}, 200, "connection: close"))
            assert await client.status() == 200
        assert await remaining(proxy) == 100_000 - -(-len(data) // 4)


async def test_what_waits_in_a_line_runs_too() -> None:
    async with (
        proxied({"max_requests": 1}, auth={"limits": {"concurrent_requests": 2}}) as proxy,
        proxy.client() as first,
        proxy.client() as second,
        proxy.client() as third,
    ):
        await first.ask(STREAM)
        peer = await proxy.server.accept()
        await peer.request()
        waiting = asyncio.create_task(second.answer(CHAT))
        for _ in range(200):  # until it is in the line
            await asyncio.sleep(0)
        status, body = await third.answer(CHAT)
        assert (status, body["error"]["message"].partition(".")[0]) == (
            429,
            "This proxy has 2 requests running, and may have 2 at a time (concurrent_requests)",
        )
        await peer.send(STREAM_HEAD + piece(text("a") + FINISH + DONE) + LAST_PIECE)
        assert await first.status() == 200
        await first.rest()
        await peer.answer(whole(COMPLETION))
        assert (await soon(waiting))[0] == 200


# ----------------------------------------------------------------- a store that is not there


NOWHERE: Final = {"store": "redis://127.0.0.1:1"}


@pytest.mark.parametrize("path", ["chat/completions", "embeddings"])
async def test_a_store_that_is_down_lets_through_and_says_so_or_does_not(path: str) -> None:
    limits = {"limits": {"requests_per_day": 1, "concurrent_requests": 1}}
    async with proxy(Server(), limits, **NOWHERE) as client:
        for _ in range(3):
            response = await client.ask(path=path)
            assert response.status_code == 200
            assert "limits=unchecked" in response.headers["x-svir-rewrites"].split(", ")
            assert limited(response) == {}
        assert "limits=unchecked" not in (await client.ask("bo", path)).headers.get("x-svir-rewrites", "")
    server = Server()
    async with proxy(server, limits, store_down="closed", **NOWHERE) as client:
        status, code, words = said(await client.ask(path=path))
        assert (status, code) == (503, "upstream_unavailable")
        assert "auth.store_down" in words
        assert server.asked == []
        assert (await client.ask("bo", path)).status_code == 200
    async with proxy(Server(), limits | {"models": ["mini"]}, **NOWHERE) as client:
        assert said(await client.ask(path=path))[1] == "model_not_allowed", "for which nothing is counted"


# ----------------------------------------------------------------- as OpenAI's own client has it


async def test_openai_python_understands_all_of_it() -> None:
    ana = {"models": ["m"], "limits": {"requests_per_minute": 1, "tokens_per_day": 900}}
    async with proxy(Server(), ana) as client:
        sdk = openai.AsyncOpenAI(
            api_key=KEYS["ana"], base_url="http://127.0.0.1:8484/v1", http_client=client.http, max_retries=0
        )
        messages: Any = CHAT["messages"]
        raw = await sdk.chat.completions.with_raw_response.create(model="m", messages=messages)
        assert raw.headers["x-ratelimit-remaining-requests"] == "0"
        assert raw.headers["x-ratelimit-remaining-tokens"] == "900"
        assert raw.parse().usage is not None
        with pytest.raises(openai.RateLimitError) as refused:
            await sdk.chat.completions.create(model="m", messages=messages)
        assert (refused.value.code, refused.value.type) == ("rate_limit_exceeded", "rate_limit_error")
        assert refused.value.response.headers["retry-after"] == "60"
        with pytest.raises(openai.PermissionDeniedError) as denied:
            await sdk.embeddings.create(model="large", input="x")
        assert (denied.value.code, denied.value.param) == ("model_not_allowed", "model")
        assert [model.id async for model in sdk.models.list()] == ["m"]


# ----------------------------------------------------------------- another configuration


async def test_counters_go_on_with_the_next_configuration_where_the_place_is_the_same() -> None:
    def auth(**more: Any) -> dict[str, Any]:
        return {"auth": {"keys": [{"name": "ana", "key": KEYS["ana"], **more}]}}

    server = Server()
    app = create_app(settings("http://server/v1", **auth(limits={"requests_per_day": 1})), httpx.MockTransport(server))
    async with living(app), httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
        client = Client(http)
        assert [(await client.ask()).status_code for _ in range(2)] == [200, 429]
        for more, statuses in (
            ({"limits": {"requests_per_day": 2}}, [200, 429]),  # raised: what was used is used
            ({"limits": {"requests_per_day": 2}, "models": ["mini"]}, [403]),
            ({}, [200, 200]),
            ({"limits": {"requests_per_day": 1}}, [200, 429]),  # nothing was counted in between
        ):
            app.reload(settings("http://server/v1", **auth(**more)))
            assert [(await client.ask()).status_code for _ in statuses] == statuses


# ----------------------------------------------------------------- what it costs where nothing is limited


@pytest.mark.parametrize(
    "auth",
    [
        {},
        {"keys": ["sk-a"]},
        {"keys": [{"key": "sk-a", "limits": {}}]},
        {"keys": [{"key": "sk-a", "limits": {}}], "limits": {"requests_per_day": 1}, "store": "redis://127.0.0.1:1"},
    ],
)
def test_without_limits_there_is_nothing_to_ask(auth: dict[str, Any]) -> None:
    assert Access.of(AuthSettings.model_validate(auth), None) is None


def test_the_libraries_are_loaded_only_where_something_is_counted() -> None:
    code = (
        "import sys, svir_proxy.server.app as app\n"
        "from svir_proxy.settings import AuthSettings as A\n"
        "from svir_proxy.server.quotas.access import Access\n"
        "Access.of(A.model_validate({'keys': [{'key': 'k', 'models': ['m']}]}), None)\n"
        "assert not {'limits', 'redis'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_what_is_used_is_what_the_last_request_found_and_goes_with_time() -> None:
    auth = AuthSettings.model_validate(
        {"limits": {"requests_per_minute": 9, "requests_per_day": 9, "tokens_per_month": 9}}
    )
    access_ = Access.of(auth, None)
    assert access_ is not None
    policy = access_.policies[None]
    assert [used for _, used, _ in policy.used(NOON)] == [0, 0, 0]
    for _ in range(5):
        await access_.admit(RequestRecord("r", "POST", "/"), [], Meter)
    assert policy.used(NOON) == [
        ("requests_per_minute", 4, 9), ("requests_per_day", 4, 9), ("tokens_per_month", 0, 9),
    ]  # fmt: skip
    for later, used in ((90, [2, 4, 0]), (180, [0, 4, 0]), (86400, [0, 0, 0]), (40 * 86400, [0, 0, 0])):
        assert [one for _, one, _ in policy.used(NOON + later)] == used
    await access_.close()
