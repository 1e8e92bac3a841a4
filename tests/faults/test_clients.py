"""Every client of the table against the proxy as it is served: what it hears, and that all is given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.faults.client import Client
from tests.faults.client_table import MAX_BODY, NAMES, TABLE, Row
from tests.faults.clients import Scene, Speaker
from tests.faults.judge import Sees, judge
from tests.faults.rig import Rig, rig
from tests.faults.upstream import Exchange
from tests.server.transport.raw_server import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ground() -> AsyncIterator[Rig]:
    async with rig(server={"max_request_bytes": MAX_BODY}) as made:
        yield made


async def act(row: Row, ground: Rig, *, pieces: bool) -> None:
    ground.open_books()
    ground.upstream.strays.clear()
    exchanges = [Exchange(turns, streamed=False) for turns in row.upstream]
    ground.upstream.exchanges |= dict(zip(NAMES, exchanges, strict=False))
    try:
        async with Speaker(ground.port) as speaker:
            scene = Scene(speaker, exchanges, pieces=pieces)
            for number, act_ in enumerate(row.acts):
                await act_.play(scene)
                assert scene.problems == [], f"act {number}, {str(act_)[:200]}"
        await until(lambda: not any(exchange.playing for exchange in exchanges))
        for exchange in exchanges:
            assert exchange.problems == []
            assert len(exchange.reused) == len(exchange.turns)
        assert ground.upstream.strays == []
        async with Client(ground.port) as client:
            assert judge(Sees(), await ground.ask_well(client, streamed=True), streamed=True) == []
    finally:
        for name in NAMES:
            ground.upstream.exchanges.pop(name, None)
        left = await ground.left()
    assert left == []


@pytest.mark.parametrize("name", TABLE)
async def test_a_client(name: str, ground: Rig) -> None:
    await act(TABLE[name], ground, pieces=False)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if not row.once])
async def test_a_client_that_says_it_byte_by_byte(name: str, ground: Rig) -> None:
    await act(TABLE[name], ground, pieces=True)
