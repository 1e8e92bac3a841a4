"""Two or three servers that do what the test says, the proxy in front of them, and a client that speaks bytes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from svir_proxy.conform.dialect import check_completion, check_error, check_stream
from svir_proxy.settings import Settings
from tests.server.conftest import Clock
from tests.server.support import (
    ANSWER,
    CHAT,
    COMPLETION,
    LAST_PIECE,
    ROLE,
    STREAM,
    STREAM_HEAD,
    Client,
    chunk,
    deltas,
    event,
    listing,
    piece,
    text,
)
from tests.server.support import whole as kept_open
from tests.server.transport.raw_server import Peer, RawServer, until
from tests.support.proxy import running_proxy

pytestmark = pytest.mark.usefixtures("leaves_nothing")

BODIES: Final = pytest.mark.parametrize("body", [CHAT, STREAM], ids=["plain", "stream"])


def whole(body: Any, status: int = 200, *headers: str) -> bytes:
    """A response after which the next request comes over a connection of its own."""
    return kept_open(body, status, "connection: close", *headers)


@dataclass
class Fleet:
    """Backends ``b0``, ``b1``, ... that all have the model, asked in this order, and the proxy."""

    servers: list[RawServer]
    base_url: str

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        client = await Client.connect(self.base_url)
        try:
            yield client
        finally:
            await client.close()

    async def asked(self, number: int) -> Peer:
        """The server's end of the next request."""
        peer = await self.servers[number].accept()
        await peer.request()
        return peer

    async def works(self, number: int, body: Mapping[str, Any] = CHAT) -> str:
        """Ask, have server *number* answer; the notes."""
        async with self.client() as client:
            await client.ask(body)
            await (await self.asked(number)).send(whole(COMPLETION))
            assert await client.status() == 200
            assert client.headers["x-svir-backend"] == f"b{number}"
            return client.headers.get("x-svir-rewrites", "")


@asynccontextmanager
async def fleet(
    count: int = 2,
    backends: Mapping[int, Mapping[str, Any]] | None = None,
    sections: Mapping[str, Any] | None = None,
    **routing: Any,
) -> AsyncIterator[Fleet]:
    """*backends*: what is set up for each beside its priority, by number. *sections*: other settings."""
    servers = [RawServer() for _ in range(count)]
    for server in servers:
        await server.start()
    try:
        configured = Settings.model_validate(
            {
                **(sections or {}),
                "routing": routing,
                "backends": [
                    {
                        "name": f"b{number}",
                        "base_url": f"http://127.0.0.1:{server.port}",
                        "models": {"m": "m"},
                        "priority": number,
                        **(backends or {}).get(number, {}),
                    }
                    for number, server in enumerate(servers)
                ],
            }
        )
        async with running_proxy(configured) as base_url:
            yield Fleet(servers, base_url)
    finally:
        for server in servers:
            await server.stop()


async def read(client: Client, body: Mapping[str, Any]) -> list[Any]:
    """A whole answer, which is in the dialect: what it says, in short."""
    assert await client.status() == 200
    if body is STREAM:
        rest = await client.rest()
        assert check_stream(rest, False) == []
        return deltas(rest)
    said = await client.body()
    assert check_completion(json.dumps(said).encode()) == []
    return [said["choices"][0]["message"]["content"], said["choices"][0]["finish_reason"]]


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def good(body: Mapping[str, Any]) -> tuple[bytes, list[Any]]:
    """A server's answer, and what the client makes of it."""
    if body is STREAM:
        return STREAM_HEAD + piece(ANSWER) + LAST_PIECE, [
            ROLE,
            {"content": "one"},
            {"content": " two"},
            "stop",
            "[DONE]",
        ]
    return whole(COMPLETION), ["one two", "stop"]


# ---------------------------------------------------------------- a failure before output goes elsewhere

ERROR_EVENT: Final = event({"error": {"message": "no memory", "type": "server_error"}})
ODD_START: Final = event(
    {
        "id": "lost",
        "object": "chat.completion.chunk",
        "created": 5,
        "model": "lost",
        "choices": [{"index": 0, "delta": {"role": "assistant"}, "logprobs": {"content": [{"token": "lost"}]}}],
    }
)

FAILURES: Final[dict[str, tuple[bytes | None, str]]] = {
    "closed": (b"", "upstream_failed"),
    "reset": (None, "upstream_failed"),
    "500": (whole({"error": "it crashed"}, 500), "upstream_failed"),
    "502": (whole(b"<html>bad gateway", 502), "upstream_failed"),
    "503": (whole({"error": "loading"}, 503), "upstream_unavailable"),
    "504": (whole(b"", 504), "upstream_timeout"),
    "408": (whole(b"", 408), "upstream_timeout"),
    "429": (whole({"error": "slow down"}, 429, "retry-after: 7"), "rate_limit_exceeded"),
    "529": (whole(b"", 529), "overloaded"),
    "401": (whole({"error": "wrong key"}, 401), "upstream_auth_failed"),
    "no such model": (
        whole({"error": {"message": "The model `m` does not exist", "code": "model_not_found"}}, 404),
        "model_not_found",
    ),
    "a page": (whole(b"<html>welcome", 200, "content-type: text/html"), "upstream_bad_response"),
    "an error in a 200": (STREAM_HEAD + piece(ERROR_EVENT), "upstream_failed"),
    "an error after signs of life": (STREAM_HEAD + piece(ODD_START + ERROR_EVENT), "upstream_failed"),
    "cut before output": (STREAM_HEAD + piece(chunk({"role": "assistant", "content": ""})), "stream_truncated"),
    "ended without a word": (STREAM_HEAD + LAST_PIECE, "stream_truncated"),
}


@BODIES
@pytest.mark.parametrize("how", FAILURES)
async def test_a_failure_before_output_is_another_backends_to_answer(how: str, body: Mapping[str, Any]) -> None:
    data, kind = FAILURES[how]
    answer, said = good(body)
    async with fleet() as proxy, proxy.client() as client:
        await client.ask(body)
        peer = await proxy.asked(0)
        if data is None:
            peer.reset()
        else:
            await peer.send(data)
            peer.end()
        await (await proxy.asked(1)).send(answer)
        assert await read(client, body) == said
        assert client.headers["x-svir-backend"] == "b1"
        assert client.headers["x-svir-rewrites"] == f"failover=b0:{kind}"


@BODIES
async def test_a_server_that_is_not_there(body: Mapping[str, Any]) -> None:
    answer, said = good(body)
    async with fleet(3) as proxy, proxy.client() as client:
        await proxy.servers[0].stop()
        await proxy.servers[1].stop()
        await client.ask(body)
        await (await proxy.asked(2)).send(answer)
        assert await read(client, body) == said
        assert client.headers["x-svir-backend"] == "b2"
        told = "failover=b0:upstream_unreachable, failover=b1:upstream_unreachable"
        assert client.headers["x-svir-rewrites"] == told


@BODIES
async def test_a_server_that_lets_its_first_output_be_waited_for(body: Mapping[str, Any], clock: Clock) -> None:
    answer, said = good(body)
    async with fleet(backends={0: {"timeouts": {"first_output": 3}}}) as proxy, proxy.client() as client:
        await client.ask(body)
        peer = await proxy.asked(0)
        await peer.send(STREAM_HEAD + piece(b": ping\n\n"))
        await turns()
        clock.advance(3.5)
        await (await proxy.asked(1)).send(answer)
        assert await read(client, body) == said
        assert client.headers["x-svir-rewrites"] == "failover=b0:upstream_timeout"
        await peer.gone()


async def test_a_stream_that_was_begun_and_kept_alive_goes_on_elsewhere(clock: Clock) -> None:
    async with fleet(backends={0: {"timeouts": {"first_output": 20}}}) as proxy, proxy.client() as client:
        await client.ask(STREAM)
        peer = await proxy.asked(0)
        await peer.send(STREAM_HEAD + piece(ODD_START))
        await turns()
        clock.advance(5.5)
        assert await client.status() == 200
        assert client.headers["x-svir-backend"] == "b0"
        begun = await client.piece()
        assert deltas(begun) == [ROLE]
        clock.advance(10.5)
        begun += await client.piece()
        clock.advance(5)
        other = await proxy.asked(1)
        clock.advance(5.5)
        begun += await client.piece()
        assert begun.endswith(b": keepalive\n\n: keepalive\n\n"), "kept alive while the other is asked"
        await other.send(STREAM_HEAD + piece(ANSWER) + LAST_PIECE)
        begun += await client.rest()
        assert check_stream(begun, False) == []
        assert deltas(begun)[-4:] == [{"content": "one"}, {"content": " two"}, "stop", "[DONE]"]
        assert b'"token"' not in begun


async def test_what_the_lost_answer_said_about_itself_is_not_said() -> None:
    async with fleet() as proxy, proxy.client() as client:
        await client.ask(STREAM)
        await (await proxy.asked(0)).send(STREAM_HEAD + piece(ODD_START + ERROR_EVENT))
        await (await proxy.asked(1)).send(STREAM_HEAD + piece(ANSWER) + LAST_PIECE)
        assert await client.status() == 200
        assert b"lost" not in await client.rest()


async def test_a_plain_answer_is_asked_for_elsewhere_however_far_it_was() -> None:
    async with fleet() as proxy, proxy.client() as client:
        await client.ask(CHAT)
        peer = await proxy.asked(0)
        await peer.send(STREAM_HEAD + piece(text("lost")))
        await turns()
        peer.reset()
        await (await proxy.asked(1)).send(whole(COMPLETION))
        assert await read(client, CHAT) == ["one two", "stop"]


async def test_the_notes_of_the_request_are_those_of_who_answered() -> None:
    """The alias means another name at each of them."""
    async with (
        fleet(backends={0: {"models": {"m": "x"}}, 1: {"models": {"m": "y"}, "profile": "llama-cpp"}}) as proxy,
        proxy.client() as client,
    ):
        await client.ask(CHAT)
        peer = await proxy.servers[0].accept()
        assert b'"model":"x"' in await peer.answer(whole(b"", 500))
        peer = await proxy.servers[1].accept()
        request = await peer.answer(STREAM_HEAD + piece(ANSWER) + LAST_PIECE)
        assert b'"model":"y"' in request
        assert await client.status() == 200
        assert client.headers["x-svir-rewrites"].startswith("failover=b0:upstream_failed, model=alias, ")


# ---------------------------------------------------------------- what stays where it is


@BODIES
@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (whole({"error": {"message": "temperature must be below 2"}}, 400), 400, None),
        (whole({"error": {"message": "bad"}}, 422), 400, None),
        (whole({"error": {"message": "the prompt exceeds the context window"}}, 400), 400, "context_length_exceeded"),
        (whole({"error": {"message": "blocked", "code": "content_filter"}}, 400), 400, "content_filter"),
        (whole({"error": {"message": "too large"}}, 413), 400, None),
    ],
)
async def test_the_clients_fault_is_one_everywhere(answer: bytes, status: int, code: str | None, body: Any) -> None:
    async with fleet() as proxy:
        for _ in range(6):
            async with proxy.client() as client:
                await client.ask(body)
                await (await proxy.asked(0)).send(answer)
                assert await client.status() == status
                assert (await client.body())["error"]["code"] == code
                assert "failover" not in client.headers.get("x-svir-rewrites", "")
        assert proxy.servers[1].accepted == 0, "and says nothing against the server that says so"


async def test_after_output_nobody_else_is_asked() -> None:
    async with fleet() as proxy, proxy.client() as client:
        await client.ask(STREAM)
        peer = await proxy.asked(0)
        await peer.send(STREAM_HEAD + piece(text("one")))
        assert await client.status() == 200
        said = await client.piece()
        peer.reset()
        said += await client.rest()
        assert check_stream(said, False) == []
        assert deltas(said) == [ROLE, {"content": "one"}, "stream_truncated"]
        assert proxy.servers[1].accepted == 0


async def test_not_where_it_is_switched_off_and_not_after_the_limit(clock: Clock) -> None:
    for seconds, late in ((0, 0), (30, 31)):
        async with fleet(failover_seconds=seconds) as proxy, proxy.client() as client:
            await client.ask(CHAT)
            peer = await proxy.asked(0)
            clock.advance(late)
            await peer.send(whole(b"", 500))
            assert await client.status() == 502
            await client.body()
            assert proxy.servers[1].accepted == 0


async def test_the_limit_is_one_for_all(clock: Clock) -> None:
    async with fleet(3, failover_seconds=30) as proxy, proxy.client() as client:
        await client.ask(CHAT)
        for number in (0, 1):
            peer = await proxy.asked(number)
            clock.advance(20)
            await peer.send(whole({"error": f"no {number}"}, 500))
        assert await client.status() == 502
        assert "no 1" in (await client.body())["error"]["message"]
        assert proxy.servers[2].accepted == 0


async def test_a_client_that_leaves_is_answered_by_nobody() -> None:
    async with fleet() as proxy:
        async with proxy.client() as client:
            await client.ask(STREAM)
            await (await proxy.asked(0)).send(whole(b"", 500))
            peer = await proxy.asked(1)
            client.leave()
            await peer.gone()
        assert await proxy.works(0) == "", "one failure opens no breaker"


# ---------------------------------------------------------------- all fail

CASES: Final = {
    "the last that was at work": ([(500, "crash 0"), (500, "crash 1")], 502, "upstream_failed", "crash 1", None, "b1"),
    "rather than one that sent it away": (
        [(500, "crash"), (503, "busy"), (401, "key")],
        502,
        "upstream_failed",
        "crash",
        None,
        "b0",
    ),
    "or was not there": ([(500, "crash"), None], 502, "upstream_failed", "crash", None, "b0"),
    "one that says when": ([None, (429, "slow", 9), (401, "key")], 429, "rate_limit_exceeded", "slow", "9", "b1"),
    "the first that is ready": (
        [(429, "one", 9), (503, "two", 4), (429, "three", 30)],
        429,
        "rate_limit_exceeded",
        "three",
        "4",
        "b2",
    ),
    "nobody there": ([None, None], 502, "upstream_unreachable", "'b1' cannot be reached", None, "b1"),
}


@BODIES
@pytest.mark.parametrize("case", CASES)
async def test_the_most_telling_error(case: str, body: Mapping[str, Any]) -> None:
    answers, status, code, words, wait, backend = CASES[case]
    async with fleet(len(answers)) as proxy, proxy.client() as client:
        for number, answer in enumerate(answers):
            if answer is None:
                await proxy.servers[number].stop()
        await client.ask(body)
        for number, answer in enumerate(answers):
            if answer is not None:
                said, more, *after = answer
                headers = [f"retry-after: {after[0]}"] if after else []
                await (await proxy.asked(number)).send(whole({"error": more}, said, *headers))
        assert await client.status() == status
        error = await client.body()
        assert check_error(json.dumps(error).encode()) == []
        assert error["error"]["code"] == code
        assert words in error["error"]["message"]
        assert client.headers.get("retry-after") == wait
        assert client.headers["x-svir-backend"] == backend
        assert client.headers["x-svir-rewrites"].count("failover=") == len(answers) - 1


async def test_all_fail_after_the_stream_was_begun(clock: Clock) -> None:
    async with fleet() as proxy, proxy.client() as client:
        await client.ask(STREAM)
        peer = await proxy.asked(0)
        clock.advance(6)
        assert await client.status() == 200
        said = await client.piece()
        await peer.send(whole(b"", 500))
        await (await proxy.asked(1)).send(whole({"error": "loading"}, 503))
        said += await client.rest()
        assert check_stream(said, False) == []
        assert deltas(said) == [ROLE, "upstream_failed"]


async def test_the_clients_fault_at_the_second_is_told() -> None:
    async with fleet() as proxy, proxy.client() as client:
        await client.ask(CHAT)
        await (await proxy.asked(0)).send(whole(b"", 503))
        await (await proxy.asked(1)).send(whole({"error": {"message": "temperature must be below 2"}}, 400))
        assert await client.status() == 400
        assert client.headers["x-svir-backend"] == "b1"


async def test_a_refusal_of_the_proxys_own_after_the_stream_was_begun(clock: Clock) -> None:
    """The second backend cannot take the image, which turns out when the client already has a status."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    body = STREAM | {"messages": [{"role": "user", "content": [image]}]}
    no_images = {"overrides": {"request": {"images": "rejected"}}}
    async with fleet(backends={1: no_images}) as proxy, proxy.client() as client:
        await client.ask(body)
        peer = await proxy.asked(0)
        clock.advance(6)
        assert await client.status() == 200
        await peer.send(whole(b"", 500))
        assert deltas(await client.rest()) == [ROLE, "image_not_supported"]


# ---------------------------------------------------------------- whom the order passes over


async def fails(proxy: Fleet, number: int = 0, other: int = 1, answer: bytes | None = None) -> None:
    """A request that *number* fails and *other* answers."""
    async with proxy.client() as client:
        await client.ask(CHAT)
        await (await proxy.asked(number)).send(answer or whole(b"", 500))
        await (await proxy.asked(other)).send(whole(COMPLETION))
        assert await client.status() == 200
        assert client.headers["x-svir-rewrites"].startswith(f"failover=b{number}:")


async def test_a_breaker_opens_and_one_request_tries_whether_it_may_close(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "svir_proxy")
    async with fleet(breaker_failures=2, breaker_seconds=10) as proxy:
        await fails(proxy)
        await fails(proxy)
        assert await proxy.works(1) == "", "b0 is not asked"
        clock.advance(10.5)
        async with proxy.client() as first:
            await first.ask(CHAT)
            trying = await proxy.asked(0)
            assert await proxy.works(1) == "", "one tries, the others do not wait for it"
            await trying.send(whole(b"", 500))
            await (await proxy.asked(1)).send(whole(COMPLETION))
            assert await first.status() == 200
        assert await proxy.works(1) == "", "open again"
        clock.advance(10.5)
        assert await proxy.works(0) == ""
        assert await proxy.works(0) == "", "closed"
    told = [record.getMessage() for record in caplog.records if record.name == "svir_proxy"]
    assert told == [
        "backend 'b0' is asked last for the model 'm', for a while: upstream_failed",
        "backend 'b0' answers again for the model 'm'",
    ]


async def test_a_client_that_leaves_a_trial_lets_another_try(clock: Clock) -> None:
    async with fleet(breaker_failures=1, breaker_seconds=10) as proxy:
        await fails(proxy)
        clock.advance(10.5)
        async with proxy.client() as client:
            await client.ask(CHAT)
            peer = await proxy.asked(0)
            client.leave()
            await peer.gone()
        assert await proxy.works(0) == ""


async def test_whoever_is_left_is_asked_whatever_its_breaker_says() -> None:
    async with fleet(breaker_failures=1) as proxy:
        await fails(proxy)
        async with proxy.client() as client:
            await client.ask(CHAT)
            await (await proxy.asked(1)).send(whole(b"", 500))
            await (await proxy.asked(0)).send(whole(COMPLETION))
            assert await client.status() == 200
            assert client.headers["x-svir-backend"] == "b0"
        assert await proxy.works(0) == "", "an answer closes it, asked for as a trial or not"


async def test_a_backend_that_is_alone_is_always_asked() -> None:
    async with fleet(1, breaker_failures=1) as proxy:
        for answer, status in ((whole(b"", 500), 502), (whole({}, 429, "retry-after: 50"), 429)) * 2:
            async with proxy.client() as client:
                await client.ask(CHAT)
                await (await proxy.asked(0)).send(answer)
                assert await client.status() == status
                assert "failover" not in client.headers.get("x-svir-rewrites", "")
        assert await proxy.works(0) == ""


async def test_a_server_that_says_when_is_left_alone_until_then(clock: Clock) -> None:
    async with fleet() as proxy:
        await fails(proxy, answer=whole({}, 429, "retry-after: 7"))
        assert await proxy.works(1) == ""
        clock.advance(7.5)
        assert await proxy.works(0) == ""


async def test_a_backend_without_a_place_is_passed_over_and_asked_where_all_are_full() -> None:
    limited = {"max_requests": 1}
    async with fleet(backends={0: limited, 1: limited}) as proxy, proxy.client() as one, proxy.client() as two:
        await one.ask(CHAT)
        first = await proxy.asked(0)
        await two.ask(CHAT)
        second = await proxy.asked(1)
        async with proxy.client() as three:
            await three.ask(CHAT)
            await turns(50)
            assert [server.accepted for server in proxy.servers] == [1, 1], "in line at the first"
            await second.send(whole(COMPLETION))
            assert await two.status() == 200
            assert two.headers["x-svir-rewrites"] == "failover=b0:overloaded"
            await first.send(whole(COMPLETION))
            assert await one.status() == 200
            await (await proxy.asked(0)).send(whole(COMPLETION))
            assert await three.status() == 200
            assert three.headers["x-svir-backend"] == "b0"


async def test_a_full_line_is_an_overload(clock: Clock) -> None:
    limited = {"max_requests": 1, "max_waiting": 0}
    async with fleet(backends={0: limited, 1: limited}, breaker_failures=1) as proxy:
        async with proxy.client() as one, proxy.client() as two, proxy.client() as three:
            await one.ask(CHAT)
            await two.ask(CHAT)
            first, second = await proxy.asked(0), await proxy.asked(1)
            status, body = await three.answer(CHAT)
            assert (status, body["error"]["code"]) == (503, "overloaded")
            assert three.headers["retry-after"] == "1"
            for peer, client in ((first, one), (second, two)):
                await peer.send(whole(COMPLETION))
                assert await client.status() == 200
        assert await proxy.works(0) == "", "the proxy's own line says nothing against the server"


async def answer_list(server: RawServer, answer: bytes) -> None:
    peer = await server.accept()
    assert b"GET /v1/models" in await peer.answer(answer)
    peer.end()


async def test_a_health_check_takes_a_backend_out_of_its_turn_and_brings_it_back(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "svir_proxy")
    async with fleet(health_seconds=5) as proxy:
        names = listing("m")
        for answer, other, who in (
            (whole(names), whole(names), 0),
            (whole({}, 503), whole(names), 1),
            (whole({}, 503), whole({}, 503), 0),
            (whole(names), whole(names), 0),
        ):
            await answer_list(proxy.servers[0], answer)
            await answer_list(proxy.servers[1], other)
            await turns()
            assert await proxy.works(who) == ""
            clock.advance(5.5)
    told = [record.getMessage().partition(":")[0] for record in caplog.records if record.name == "svir_proxy"]
    assert told == ["backend 'b0' is away", "backend 'b1' is away", "backend 'b0' is back", "backend 'b1' is back"]


# ---------------------------------------------------------------- conversations


async def test_a_conversation_stays_and_others_go_elsewhere() -> None:
    same = {number: {"priority": 0} for number in range(3)}
    async with fleet(3, backends=same) as proxy:
        homes: dict[str, int] = {}
        for number in range(12):
            said = [{"role": "user", "content": f"story {number}"}]
            for turn in range(3):
                async with proxy.client() as client:
                    await client.ask(CHAT | {"messages": said})
                    home = homes.get(said[0]["content"])
                    if home is None:
                        await until(lambda: any(not server._waiting.empty() for server in proxy.servers))
                        home = next(i for i, server in enumerate(proxy.servers) if not server._waiting.empty())
                        homes[said[0]["content"]] = home
                    await (await proxy.asked(home)).send(whole(COMPLETION))
                    assert await client.status() == 200
                    assert client.headers["x-svir-backend"] == f"b{home}", turn
                said = [*said, {"role": "assistant", "content": "..."}, {"role": "user", "content": "go on"}]
        assert set(homes.values()) == {0, 1, 2}


async def test_listed_models_of_several_servers() -> None:
    async with fleet(backends={0: {"models": {}}, 1: {"models": {}}}) as proxy, proxy.client() as client:
        await client.ask(CHAT)
        await answer_list(proxy.servers[1], whole(listing("m")))
        await turns()
        await answer_list(proxy.servers[0], whole(listing("m")))
        await (await proxy.asked(0)).send(whole(b"", 500))
        await (await proxy.asked(1)).send(whole(COMPLETION))
        assert await client.status() == 200
        assert client.headers["x-svir-rewrites"] == "failover=b0:upstream_failed"


async def test_a_model_that_is_gone_is_told_with_the_nearest_names() -> None:
    gone = {"error": {"message": "model 'qwen3' not found", "code": "model_not_found"}}
    body = CHAT | {"model": "qwen3"}
    async with fleet(1, {0: {"models": {}, "profile": "vllm"}}) as proxy, proxy.client() as client:
        await client.ask(body)
        await answer_list(proxy.servers[0], whole(listing("qwen3", "qwen3-next", "phi")))
        await (await proxy.asked(0)).send(whole(gone, 404))
        assert await client.status() == 404
        error = (await client.body())["error"]
        assert (error["code"], error["message"]) == (
            "model_not_found",
            "model 'qwen3' not found. Did you mean 'qwen3-next'?",
        )
        await answer_list(proxy.servers[0], whole(listing("phi")))  # read anew
