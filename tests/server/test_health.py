"""How often a backend is looked at, and that none waits for another. What follows from it: test_failover."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from svir_proxy.server.app import create_app
from svir_proxy.server.breaker import Breakers
from svir_proxy.server.catalog import Catalog
from svir_proxy.server.health import Health
from svir_proxy.server.upstream import Upstream
from svir_proxy.settings import Backend, LimitSettings
from tests.server.conftest import Clock
from tests.server.support import listing, living, settings
from tests.server.transport.raw_server import soon, until

pytestmark = pytest.mark.usefixtures("leaves_nothing")


class Servers:
    """Model servers by name; they count how often they are asked, and answer once `gates` says so."""

    def __init__(self, *names: str) -> None:
        self.asked = dict.fromkeys(names, 0)
        self.status = dict.fromkeys(names, 200)
        self.gates: dict[str, asyncio.Event] = {}

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        name = request.url.host
        self.asked[name] += 1
        if name in self.gates:
            await self.gates[name].wait()
        return httpx.Response(self.status[name], json=listing("m"))


async def settled(catalog: Catalog | None = None) -> None:
    """Let the loop turn until those who look wait for the next time."""
    if catalog is not None:
        await until(lambda: catalog._refreshing.keys() <= {"slow"})
    for _ in range(20):
        await asyncio.sleep(0)


def looked_after(servers: Servers, breakers: Breakers, seconds: float) -> tuple[Health, Catalog]:
    network = httpx.MockTransport(servers)
    backends = [Backend(name=name, base_url=f"http://{name}") for name in servers.asked]
    catalog = Catalog([Upstream(backend, LimitSettings(), network) for backend in backends], None, seconds)
    return Health(catalog, breakers, seconds), catalog


async def test_each_is_looked_at_in_its_own_time(clock: Clock) -> None:
    servers = Servers("a", "slow")
    servers.gates["slow"] = asyncio.Event()
    health, catalog = looked_after(servers, Breakers(1, 1), 2)
    for looks in (1, 2, 3):
        await until(lambda looks=looks: servers.asked == {"a": looks, "slow": 1})  # type: ignore[misc]
        await settled(catalog)
        clock.advance(1.9)
        await settled()
        assert servers.asked["a"] == looks
        clock.advance(0.2)
    servers.gates["slow"].set()
    await soon(health.close())
    await soon(catalog.close())


@pytest.mark.parametrize(("first", "state"), [(503, "half_open"), (404, "open"), (200, "open")])
async def test_one_that_is_back_may_be_tried(first: int, state: str, clock: Clock) -> None:
    servers, breakers = Servers("a"), Breakers(1, 1000)
    breakers.failed(("a", "m"), clock.time())
    servers.status["a"] = first
    health, catalog = looked_after(servers, breakers, 5)
    for looks in (1, 2):
        await until(lambda looks=looks: servers.asked["a"] == looks)  # type: ignore[misc]
        await settled(catalog)
        servers.status["a"] = 200
        clock.advance(5.1)
    await until(lambda: servers.asked["a"] == 3)
    await settled(catalog)
    assert breakers.state(("a", "m"), clock.time()) == state
    await soon(health.close())
    await soon(catalog.close())


async def test_a_look_that_fails_in_the_proxy_itself_is_not_the_last(
    clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = Servers("a")
    health, catalog = looked_after(servers, Breakers(1, 1), 5)
    with monkeypatch.context() as broken:
        broken.setattr("svir_proxy.server.catalog.read_model_list", lambda *_, **__: 1 / 0)
        await until(lambda: bool(caplog.records))
    assert "backend 'a' could not be looked at" in caplog.text
    await settled(catalog)
    clock.advance(5.1)
    await until(lambda: servers.asked["a"] == 2)
    await settled(catalog)
    await soon(health.close())
    await soon(catalog.close())


@pytest.mark.parametrize("seconds", [None, 5])
async def test_an_old_configuration_looks_no_more(seconds: float | None, clock: Clock) -> None:
    servers = Servers("old", "new")
    network = httpx.MockTransport(servers)

    def configured(name: str) -> Any:
        return settings(f"http://{name}", routing={"health_seconds": seconds})

    app = create_app(configured("old"), network)
    async with living(app):
        if seconds is None:
            assert servers.asked == {"old": 0, "new": 0}
            return
        await until(lambda: servers.asked["old"] == 1)
        app.reload(configured("new"))
        for looks in (1, 2, 3):
            await until(lambda looks=looks: servers.asked["new"] == looks)  # type: ignore[misc]
            await settled()
            clock.advance(5.1)
        assert servers.asked["old"] == 1
