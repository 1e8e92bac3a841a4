"""Limits in real processes: two that share a real store, and lose it; one that is told of new ones while it answers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import redis.asyncio
import yaml

from svir_proxy.conform.upstream import ScriptedUpstream, json_answer
from tests.cli.processes import Serving, serve
from tests.server.support import (
    CHAT,
    COMPLETION,
    DONE,
    FINISH,
    LAST_PIECE,
    ROLE,
    STREAM,
    STREAM_HEAD,
    Client,
    deltas,
    piece,
    text,
)
from tests.server.transport.raw_server import HANG, Peer, RawServer, soon
from tests.support.store import Store, running_store

USAGE: Final = {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42}
KEYS: Final = {"ana": "sk-ana", "bo": "sk-bo"}
# Of a month, so that no test runs while one limit ends.


@dataclass
class Rig:
    """A model server that answers at once (``m``), one that the test speaks for (``slow``), and a configuration."""

    config: Path
    script: ScriptedUpstream
    slow: RawServer

    def write(self, limits: dict[str, int], keys: tuple[str, ...] = ("ana", "bo"), **auth: Any) -> Path:
        """The configuration: *limits* are ana's, bo has none."""
        listed = [{"name": name, "key": KEYS[name], "limits": limits if name == "ana" else {}} for name in keys]
        backends = [
            {"name": "script", "base_url": self.script.base_url, "models": {"m": "m"}},
            {"name": "slow", "base_url": f"http://127.0.0.1:{self.slow.port}/v1", "models": {"slow": "slow"}},
        ]
        self.config.write_text(yaml.safe_dump({"auth": {"keys": listed, **auth}, "backends": backends}))
        return self.config

    async def stream(self, client: Client) -> Peer:
        """The server's end of a stream of ana's that has begun."""
        await client.ask(STREAM | {"model": "slow"}, authorization=f"Bearer {KEYS['ana']}")
        peer = await self.slow.accept()
        await peer.request()
        await peer.send(STREAM_HEAD + piece(text("a")))
        assert await client.status() == 200
        assert deltas(await client.piece()) == [ROLE, {"content": "a"}]
        return peer


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    slow = RawServer()
    await slow.start()
    try:
        async with ScriptedUpstream({"m": json_answer(COMPLETION | {"usage": USAGE})}) as script:
            yield Rig(tmp_path / "svir.yaml", script, slow)
    finally:
        await slow.stop()


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with running_store() as running:
        yield running


@asynccontextmanager
async def two(config: Path) -> AsyncIterator[tuple[Serving, Serving]]:
    """Two proxies with one configuration."""
    async with serve(config) as one, serve(config) as other:
        yield one, other


def shared(store: Store, **auth: Any) -> dict[str, Any]:
    """A store that is only taken for down when it is: a slow machine is no such thing."""
    return {"store": store.url, "store_seconds": HANG, **auth}


@dataclass
class Told:
    """An answer, in short."""

    status: int
    code: str | None
    headers: dict[str, str]


async def ask(serving: Serving, key: str = "ana") -> Told:
    async with serving.client() as client:
        status, body = await client.answer(CHAT, authorization=f"Bearer {KEYS[key]}")
        return Told(status, body.get("error", {}).get("code"), client.headers)


async def until_told(serving: Serving, condition: Callable[[Told], bool]) -> Told:
    """Ask until the answer is as it should become."""
    async with asyncio.timeout(HANG):
        while not condition(told := await ask(serving)):
            pass
    return told


async def counted(store: Store, setting: str, least: int) -> int:
    """What the store has counted for ana, once it is at *least* so much: what is charged is charged afterwards."""
    client = redis.asyncio.Redis.from_url(store.url)
    try:
        async with asyncio.timeout(HANG):
            while True:
                keys = await client.keys(f"svir:{{key:ana}}/{setting}/*")
                if (total := sum([int(await client.get(key) or 0) for key in keys])) >= least:
                    return total
    finally:
        await client.aclose()


# ----------------------------------------------------------------- one limit for two processes


async def test_two_processes_keep_one_limit_of_requests(rig: Rig, store: Store) -> None:
    async with two(rig.write({"requests_per_month": 5}, **shared(store))) as proxies:
        answers = await soon(asyncio.gather(*(ask(proxies[number % 2]) for number in range(20))))
        assert sorted(told.status for told in answers) == [200] * 5 + [429] * 15
        assert sorted(told.headers["x-ratelimit-remaining-requests"] for told in answers) == [*"0" * 16, *"1234"]
        for proxy in proxies:
            assert (await ask(proxy)).code == "quota_exceeded"
            assert (await ask(proxy, "bo")).status == 200
    assert len(rig.script.received) == 7


async def test_two_processes_keep_one_limit_of_tokens(rig: Rig, store: Store) -> None:
    one_limit = rig.write({"tokens_per_month": 50}, **shared(store))
    async with two(one_limit) as (one, other):
        assert (await ask(one)).status == 200
        assert await counted(store, "tokens_per_month", 42) == 42
        told = await ask(other)
        assert (told.status, told.headers["x-ratelimit-remaining-tokens"]) == (200, "8")
        assert await counted(store, "tokens_per_month", 84) == 84, "beyond the limit, once"
        assert [(await ask(proxy)).code for proxy in (one, other)] == ["quota_exceeded"] * 2
    async with serve(one_limit) as anew:
        assert (await ask(anew)).code == "quota_exceeded", "a process that begins anew has forgotten nothing"


async def test_two_processes_count_together_what_runs(rig: Rig, store: Store) -> None:
    async with (
        two(rig.write({"concurrent_requests": 1}, **shared(store))) as (one, other),
        one.client() as client,
    ):
        peer = await rig.stream(client)
        for proxy in (one, other):
            told = await ask(proxy)
            assert (told.status, told.code, told.headers["retry-after"]) == (429, "rate_limit_exceeded", "1")
        await peer.send(piece(FINISH + DONE) + LAST_PIECE)
        assert deltas(await client.rest()) == ["stop", "[DONE]"]
        await until_told(other, lambda told: told.status == 200)


async def test_who_leaves_early_has_used_what_came(rig: Rig, store: Store) -> None:
    async with two(rig.write({"tokens_per_month": 10, "concurrent_requests": 1}, **shared(store))) as (one, other):
        async with one.client() as client:
            peer = await rig.stream(client)
            client.leave()
            await peer.gone()
        assert await counted(store, "tokens_per_month", 1) == 21 + 1, "a quarter of the request's bytes, and one piece"
        told = await until_told(other, lambda told: told.code != "rate_limit_exceeded")
        assert told.code == "quota_exceeded"


# ----------------------------------------------------------------- a store that dies


async def test_without_its_store_it_goes_on_and_says_so(rig: Rig, store: Store) -> None:
    async with serve(rig.write({"requests_per_month": 2, "tokens_per_month": 900}, **shared(store))) as proxy:
        assert (await ask(proxy)).headers["x-ratelimit-remaining-requests"] == "1"
        async with proxy.client() as client:
            peer = await rig.stream(client)
            assert (await ask(proxy)).code == "quota_exceeded"
            await store.stop()
            for _ in range(3):
                told = await ask(proxy)
                assert told.status == 200
                assert "limits=unchecked" in told.headers["x-svir-rewrites"]
                assert "x-ratelimit-remaining-requests" not in told.headers
            await peer.send(piece(text("b") + FINISH + DONE) + LAST_PIECE)
            assert deltas(await client.rest()) == [{"content": "b"}, "stop", "[DONE]"], "the stream knows nothing of it"
        await proxy.said(r"ERROR +the store at 127\.0\.0\.1:\d+, which the limits are counted in, is down")
        await store.start()
        await proxy.said(r"WARNING +the store at .* answers again: requests are counted")
        told = await ask(proxy)
        assert "limits=unchecked" not in told.headers.get("x-svir-rewrites", "")
        assert told.headers["x-ratelimit-remaining-requests"] == "1", "it counts anew: that store keeps nothing on disk"
    assert sum("is down" in line for line in proxy.lines) == 1


async def test_without_its_store_it_is_closed_where_that_is_wanted(rig: Rig, store: Store) -> None:
    async with serve(rig.write({"requests_per_month": 99}, **shared(store, store_down="closed"))) as proxy:
        assert (await ask(proxy)).status == 200
        await store.stop()
        for _ in range(3):
            told = await ask(proxy)
            assert (told.status, told.code, told.headers["retry-after"]) == (503, "upstream_unavailable", "1")
            assert (await ask(proxy, "bo")).status == 200, "who has no limits needs no store"
        await store.start()
        await proxy.said("answers again: requests are counted")
        assert (await ask(proxy)).status == 200


async def test_a_store_that_was_never_there_is_told_before_anybody_asks(rig: Rig, store: Store) -> None:
    await store.stop()
    async with serve(rig.write({"requests_per_month": 1}, **shared(store))) as proxy:
        await proxy.said("is down: .*; until it answers, auth.store_down decides")
        assert (await ask(proxy)).status == 200


# ----------------------------------------------------------------- workers, and a change while it runs


async def test_workers_that_count_each_for_itself_are_warned_of(rig: Rig) -> None:
    async with serve(rig.write({"requests_per_month": 1}), workers=2) as proxy:
        assert any("WARNING auth.store: is not set, so each of the 2 workers counts" in line for line in proxy.lines)


async def test_workers_that_share_a_store_count_together(rig: Rig, store: Store) -> None:
    async with serve(rig.write({"requests_per_month": 3}, **shared(store)), workers=2) as proxy:
        answers = await soon(asyncio.gather(*(ask(proxy) for _ in range(12))))
        assert sorted(told.status for told in answers) == [200] * 3 + [429] * 9
    assert not any("auth.store: is not set" in line for line in proxy.lines)


async def test_counts_go_on_when_limits_change_and_streams_when_keys_do(rig: Rig) -> None:
    async with serve(rig.write({"requests_per_month": 2})) as proxy, proxy.client() as client:
        peer = await rig.stream(client)
        assert [(await ask(proxy)).status for _ in range(2)] == [200, 429]
        rig.write({"requests_per_month": 3})
        proxy.signal(signal.SIGHUP)
        await proxy.said("the configuration was reloaded")
        assert [(await ask(proxy)).status for _ in range(2)] == [200, 429]
        rig.write({}, keys=("bo",))
        proxy.signal(signal.SIGHUP)
        await proxy.said("the configuration was reloaded")
        assert (await ask(proxy)).status == 401
        await peer.send(piece(text("b") + FINISH + DONE) + LAST_PIECE)
        assert deltas(await client.rest()) == [{"content": "b"}, "stop", "[DONE]"]
