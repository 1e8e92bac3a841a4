"""Counting in a real Redis, or Valkey, server: what two processes see of each other, and of a server that goes away."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from svir_proxy.server.quotas import store as module
from svir_proxy.server.quotas.bounds import Bound, Counted
from svir_proxy.server.quotas.counters import Demand, StoreDown
from svir_proxy.server.quotas.memory import MemoryCounters
from svir_proxy.server.quotas.store import StoreCounters
from tests.server.conftest import Clock
from tests.server.transport.raw_server import HANG, soon
from tests.support.store import INSTALLED, PROGRAMS, Store, running_store

pytestmark = pytest.mark.usefixtures("leaves_nothing")

NOON = 1796040000.0
RPM, TPM, TPD = Bound("requests", "minute", 3), Bound("tokens", "minute", 40), Bound("tokens", "day", 100)
PATIENT = HANG
"""Seconds for a round trip where a slow machine must not look like a store that is down."""


@pytest.fixture(params=INSTALLED or PROGRAMS[:1])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    async with running_store(request.param) as store:
        yield store


@asynccontextmanager
async def counting(url: str, seconds: float = PATIENT) -> AsyncIterator[StoreCounters]:
    counters = StoreCounters(url, seconds)
    try:
        yield counters
    finally:
        await soon(counters.close())


def demand(lease: str, *bounds: Bound, at_once: int | None = None, account: str = "key:a") -> Demand:
    return Demand(account, bounds, at_once, lease)


async def settled(counters: StoreCounters, what: Demand, tokens: int = 0) -> None:
    counters.settle(what, tokens, NOON)
    await soon(counters._background.finish())


# ----------------------------------------------------------------- what is counted


@pytest.mark.parametrize("seed", range(6))
async def test_it_decides_as_memory_does(server: Store, seed: int) -> None:
    """The rule is written twice, in Python and in Lua."""
    chance = random.Random(seed)
    bounds = (RPM, TPM, Bound("requests", "day", 30), TPD)
    memory, now = MemoryCounters(), NOON
    running: list[Demand] = []
    async with counting(server.url) as counters:
        for number in range(150):
            now += chance.choice((0, 0.25, 3, 17, 61, 3600))
            if running and chance.random() < 0.5:
                over, tokens = running.pop(chance.randrange(len(running))), chance.choice((0, 1, 15, 70))
                for place in (memory, counters):
                    place.settle(over, tokens, now)
                await soon(counters._background.finish())
                continue
            asked = demand(f"l{number}", *bounds, at_once=2, account=chance.choice(("key:a", "key:b")))
            said = await soon(counters.admit(asked, now))
            assert said == await memory.admit(asked, now)
            if said.taken:
                running.append(asked)


async def test_two_processes_keep_one_limit(server: Store) -> None:
    async with counting(server.url) as one, counting(server.url) as other:
        verdicts = await soon(
            asyncio.gather(*((one, other)[n % 2].admit(demand(f"l{n}", RPM), NOON) for n in range(40)))
        )
        assert sum(verdict.taken for verdict in verdicts) == 3
        assert (await other.admit(demand("x", RPM, account="key:b"), NOON)).taken
        first = demand("t", TPD)
        assert (await one.admit(first, NOON)).taken
        await settled(one, first, 250)
        assert await soon(other.admit(first, NOON)) == (False, 0, (Counted(250, 0),))


async def test_requests_that_run_are_given_back_whoever_asks(server: Store) -> None:
    first, second = demand("first", at_once=1), demand("second", at_once=1)
    async with counting(server.url) as one, counting(server.url) as other:
        assert (await soon(one.admit(first, NOON))).taken
        assert await soon(other.admit(second, NOON)) == (False, 1, ())
        await settled(one, first)
        assert (await soon(other.admit(second, NOON))).taken


async def test_all_that_is_kept_ends_by_itself(server: Store) -> None:
    async with counting(server.url) as counters:
        what = demand("l", RPM, TPD, at_once=4)
        await soon(counters.admit(what, NOON))
        await settled(counters, what, 5)
        await soon(counters.admit(what, NOON))
        client = counters._client
        keys = [key for key in await soon(client.keys()) if key != b"svir:probe"]
        assert sorted(key.decode().partition("/")[0] for key in keys) == ["svir:{key:a}"] * 3
        assert all([await soon(client.ttl(key)) > 0 for key in keys])


async def test_a_process_that_dies_gives_back_what_it_had_running(
    server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with counting(server.url) as living:
        with monkeypatch.context() as short:
            short.setattr(module, "_LEASE", 0.001)
            async with counting(server.url) as dead:  # it never settles, and renews nothing
                assert (await soon(dead.admit(demand("a", at_once=1), NOON))).taken
        async with asyncio.timeout(HANG):
            while not (await living.admit(demand("b", at_once=1), NOON)).taken:
                pass


async def test_leases_are_renewed_as_long_as_there_are_any(server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RENEW", 0.001)
    what = demand("l", at_once=1)
    async with counting(server.url) as counters:
        await soon(counters.admit(what, NOON))
        client, key = counters._client, counters._running("key:a")
        await soon(client.flushall())  # a store that has begun anew is told, too
        async with asyncio.timeout(HANG):
            while await client.zscore(key, "l") is None:
                pass
            began = await client.zscore(key, "l")
            while await client.zscore(key, "l") == began:
                pass
        assert not (await soon(counters.admit(demand("other", at_once=1), NOON))).taken
        await settled(counters, what)
        async with asyncio.timeout(HANG):
            while counters._renewing is not None:  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0)


async def test_who_leaves_while_the_store_is_asked_leaves_nothing_running(server: Store) -> None:
    async with counting(server.url) as counters:
        server.stand_still()
        asking = asyncio.create_task(counters.admit(demand("l", at_once=1), NOON))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        server.go_on()
        await soon(counters._background.finish())
        assert (await soon(counters.admit(demand("m", at_once=1), NOON))) == (True, 0, ())


# ----------------------------------------------------------------- a store that is not there


async def lost(counters: StoreCounters) -> None:
    with pytest.raises(StoreDown):
        await soon(counters.admit(demand("l", RPM), NOON))
    assert counters.is_down


async def found(counters: StoreCounters) -> None:
    async with asyncio.timeout(HANG):
        while counters.is_down:  # noqa: ASYNC110 - a ping a while
            await asyncio.sleep(0)


async def test_it_goes_and_comes_back_with_one_line_each(
    server: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_PING", 0.01)
    caplog.set_level(logging.WARNING, "svir_proxy")
    async with counting(server.url) as counters:
        assert (await soon(counters.admit(demand("l", RPM), NOON))).taken
        await server.stop()
        for _ in range(5):
            await lost(counters)
        await settled(counters, demand("l", TPD, at_once=1), 5)  # nothing to tell it to, and no failure
        await counters._prolong("key:a", ["l"])
        await server.start()
        await found(counters)
        assert (await soon(counters.admit(demand("l", RPM), NOON))) == (True, 0, (Counted(0, 0),)), "it has forgotten"
        await soon(counters._background.finish())
        assert (await soon(counters.admit(demand("l", TPD), NOON))).counted == (Counted(5, 0),), (
            "but what came since not"
        )
    went, back = (record.getMessage() for record in caplog.records)
    assert went.startswith(f"the store at 127.0.0.1:{server.port}, which the limits are counted in, is down: ")
    assert back == f"the store at 127.0.0.1:{server.port} answers again: requests are counted"


async def test_one_that_takes_pings_and_nothing_else_is_not_asked_again_and_again(
    server: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_PING", 3600)
    caplog.set_level(logging.ERROR, "svir_proxy")
    async with counting(server.url) as counters:
        await soon(counters._background.finish())
        await soon(
            counters._client.set(counters._counter(demand("l"), TPD.setting, TPD.window(NOON).current), "no number")
        )
        counters.settle(demand("l", TPD), 5, NOON)
        async with asyncio.timeout(HANG):
            while len(caplog.records) < 2:  # it failed, the store was back, and it failed again  # noqa: ASYNC110
                await asyncio.sleep(0)
        await soon(counters._background.finish())
        assert counters.is_down
        assert len(counters._missed) == 1
    assert len(caplog.records) == 2


async def test_one_that_stands_still_is_waited_for_once(server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PING", 0.01)
    async with counting(server.url, 0.05) as counters:
        await soon(counters._background.finish())
        server.stand_still()
        await lost(counters)
        asked = counters._client.connection_pool
        monkeypatch.setattr(asked, "get_connection", None)  # who asked now would fail
        for _ in range(100):
            await lost(counters)
        monkeypatch.undo()
        server.go_on()
        await found(counters)


async def test_a_crowd_waits_in_line_and_does_not_take_that_for_a_slow_store(
    server: Store, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(module, "_CONNECTIONS", 1)
    async with counting(server.url, 1.0) as counters:
        await soon(counters._background.finish())

        async def ask() -> str:
            clock.advance(0.4)
            await asyncio.sleep(0)
            return "told"

        assert await asyncio.gather(*(counters._ask(ask) for _ in range(50))) == ["told"] * 50


async def test_a_crowd_before_a_store_that_stands_still_waits_together(server: Store) -> None:
    async with counting(server.url, 0.2) as counters:
        await soon(counters._background.finish())
        server.stand_still()
        asked = 0

        async def ask() -> str:
            nonlocal asked
            asked += 1
            await asyncio.sleep(3600)
            return ""

        told = await soon(asyncio.gather(*(counters._ask(ask) for _ in range(2000)), return_exceptions=True))
        assert all(isinstance(each, StoreDown) for each in told)
        assert asked <= 2 * module._CONNECTIONS, "the others were told when it was known"
        server.go_on()


async def test_a_process_that_stood_still_is_no_slow_store(server: Store) -> None:
    """The answer is there, but who looks for it late finds the end of its time first."""
    asked = 0

    def stand_still() -> None:
        time.sleep(0.3)  # as a large body does that is read

    async def ask() -> str:
        nonlocal asked
        asked += 1
        if asked == 1:
            stand_still()
            await asyncio.sleep(3600)
        return "told"

    async with counting(server.url) as counters:
        await soon(counters._background.finish())
        counters._seconds = 0.1
        assert await counters._ask(ask) == "told"
        assert (asked, counters.is_down) == (2, False)


async def test_one_that_was_started_anew_meanwhile_is_no_failure(server: Store) -> None:
    async with counting(server.url) as counters:
        await soon(asyncio.gather(*(counters.admit(demand(f"l{n}", RPM), NOON) for n in range(8))))
        await server.stop()
        await server.start()
        verdicts = await soon(asyncio.gather(*(counters.admit(demand(f"m{n}", RPM), NOON) for n in range(8))))
        assert sum(verdict.taken for verdict in verdicts) == 3
        assert not counters.is_down


async def test_one_that_does_not_let_it_in_is_found_out_before_the_first_request(
    server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async with counting(server.url.replace("redis://", "redis://user:hush@")) as counters:
        await soon(counters._background.finish())
        await lost(counters)
    assert "is down: invalid username-password pair" in caplog.text
    assert "hush" not in caplog.text


async def test_what_is_said_of_a_failure_has_no_password(caplog: pytest.LogCaptureFixture) -> None:
    async with counting("redis://:hush@127.0.0.1:1") as counters:
        counters._lose("it repeats hush")
    assert "is down: it repeats ***;" in caplog.text
