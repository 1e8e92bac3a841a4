"""Every fault of the table against the proxy as it is served: what the client sees, and that all is given back."""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.faults.client import Client
from tests.faults.judge import Sees, judge
from tests.faults.rig import SHORT, Rig, rig
from tests.faults.table import BEGUN, TABLE, Fault
from tests.faults.upstream import Exchange
from tests.server.transport.raw_server import Certificate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = {"error_body_seconds": SHORT}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ground(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    certificate = Certificate(tmp_path_factory.mktemp("certificate"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.pem, certificate.key)
    async with rig(context, limits=LIMITS) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hasty(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """Begins every stream at once."""
    async with rig(limits=LIMITS, streaming={"commit_after": 0.001}) as made:
        yield made


async def check(fault: Fault, ground: Rig) -> None:
    ground.open_books()
    try:
        await _check(fault, ground)
    finally:
        left = await ground.left()
    assert left == []


async def _check(fault: Fault, ground: Rig) -> None:
    exchange = Exchange(fault.turns, fault.streamed)
    async with Client(ground.port) as client:
        if fault.warm:
            assert judge(Sees(), await ground.ask_well(client, streamed=True), streamed=True) == []
        seen = await ground.ask(client, exchange, fault.backend, **fault.more)
        assert judge(fault.sees, seen, streamed=fault.streamed) == []
        assert re.search(fault.noted, seen.headers.get("x-svir-rewrites", ""))
        assert exchange.problems == []
        assert ground.upstream.strays == []
        assert len(exchange.reused) == len(fault.turns)
        next_one = await ground.ask_well(client, streamed=fault.streamed)
        assert judge(Sees(), next_one, streamed=fault.streamed) == []
        assert ground.upstream.accepted == fault.connections, "the proxy kept what it should not, or the reverse"


@pytest.mark.parametrize("name", TABLE)
async def test_a_fault(name: str, ground: Rig) -> None:
    await check(TABLE[name], ground)


@pytest.mark.parametrize("name", BEGUN)
async def test_a_fault_of_a_stream_that_has_begun(name: str, hasty: Rig) -> None:
    await check(BEGUN[name], hasty)
