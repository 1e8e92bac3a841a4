"""What is so at the moment: read from live generations."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from svir_proxy.server.breaker import Breakers
from svir_proxy.server.catalog import Catalog
from svir_proxy.server.metrics import families
from svir_proxy.server.metrics.gauges import read_gauges
from svir_proxy.server.metrics.values import Values
from svir_proxy.server.request_record import RequestRecord
from svir_proxy.server.upstream import Upstream
from tests.server.metrics.records import record
from tests.server.support import listing, settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from svir_proxy.settings import Settings


@dataclass
class Generation:
    catalog: Catalog
    breakers: Breakers = field(default_factory=lambda: Breakers(1, 30.0))
    live: set[RequestRecord] = field(default_factory=set)
    access: Any = None

    def settle(self) -> None:
        """Nothing waits."""


@asynccontextmanager
async def generation(configured: Settings) -> AsyncIterator[Generation]:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.port == 1:
            raise httpx.ConnectError("no")
        return httpx.Response(200, json=listing("big"))

    network = httpx.MockTransport(answer)
    upstreams = [Upstream(backend, configured.limits, network) for backend in configured.backends]
    made = Generation(Catalog(upstreams))
    try:
        yield made
    finally:
        await made.catalog.close()
        for upstream in upstreams:
            await upstream.close()


def at(values: Values, family: families.Family) -> dict[Any, Any]:
    return values.get(family.name, {})


TWO = ("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1")


def test_before_there_is_any_there_are_none() -> None:
    assert read_gauges([], 0.0) == {}


async def test_open_requests_and_streams_are_counted_by_backend() -> None:
    async with generation(settings(*TWO)) as old, generation(settings(*TWO)) as new:
        old.live = {record(backend="b0", stream=True), record(backend="gone")}
        new.live = {record(backend="b0"), record(backend=""), record(backend="", path="/v1/metrics")}
        values = read_gauges([old, new], 0.0)
    assert at(values, families.OPEN_REQUESTS) == {("",): 1, ("b0",): 2, ("b1",): 0, ("gone",): 1}
    assert at(values, families.OPEN_STREAMS) == {("",): 0, ("b0",): 1, ("b1",): 0}


async def test_places_of_a_backend_are_counted_once() -> None:
    configured = settings(TWO[0], backend={"max_requests": 2})
    async with generation(configured) as old, generation(configured) as new, generation(configured) as other:
        [upstream] = new.catalog.upstreams
        [before] = old.catalog.upstreams
        [apart] = other.catalog.upstreams
        places, more = before.places, apart.places
        upstream.places = places
        assert places is not None
        assert more is not None
        async with places, places, more:
            waits = asyncio.create_task(places.__aenter__())
            await asyncio.sleep(0)
            values = read_gauges([other, old, new], 0.0)
            waits.cancel()
            await asyncio.gather(waits, return_exceptions=True)
    assert at(values, families.PLACES) == {("b0",): 2}
    assert at(values, families.PLACES_TAKEN) == {("b0",): 3}
    assert at(values, families.WAITING) == {("b0",): 1}


async def test_a_backend_is_up_as_its_list_was_last_read() -> None:
    async with generation(settings(*TWO)) as new:
        assert at(read_gauges([new], 0.0), families.BACKEND_UP) == {}
        for upstream in new.catalog.upstreams:
            await new.catalog.models(upstream)
        assert at(read_gauges([new], 0.0), families.BACKEND_UP) == {("b0",): 0, ("b1",): 1}


async def test_breakers_are_told_by_the_names_that_servers_have() -> None:
    async with generation(settings(*TWO, backend={"models": {"alias": "own-id"}})) as new:
        for upstream in new.catalog.upstreams:
            await new.catalog.models(upstream)
        for backend, model in (("b0", "own-id"), ("b1", "big"), ("b1", "made-up"), ("b1", "too")):
            new.breakers.failed((backend, model), 0.0)
        values = at(read_gauges([new], 10.0), families.BREAKER)
        later = at(read_gauges([new], 40.0), families.BREAKER)
    assert values == {
        (backend, model, state): count if state == "open" else 0
        for backend, model, count in (("b0", "own-id", 1), ("b1", "big", 1), ("b1", "other", 2))
        for state in ("closed", "half_open", "open")
    }
    assert later["b0", "own-id", "half_open"] == 1


@pytest.mark.parametrize(
    ("is_shared", "is_down", "told"), [(True, False, {(): 1}), (True, True, {(): 0}), (False, False, {})]
)
async def test_the_store_of_limits_is_up_or_not(is_shared: bool, is_down: bool, told: dict[Any, int]) -> None:
    async with generation(settings(*TWO)) as one:
        assert at(read_gauges([one], 0.0), families.STORE_UP) == {}
        one.access = SimpleNamespace(place=None)
        assert at(read_gauges([one], 0.0), families.STORE_UP) == {}
        one.access.place = SimpleNamespace(counters=SimpleNamespace(is_shared=is_shared, is_down=is_down))
        assert at(read_gauges([one], 0.0), families.STORE_UP) == told
