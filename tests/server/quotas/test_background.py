"""Work that nobody waits for is done at the end."""

from __future__ import annotations

import asyncio

import pytest

from svir_proxy.server.quotas.background import Background

pytestmark = pytest.mark.usefixtures("leaves_nothing")


async def test_finish_waits_for_all_of_it_also_for_what_is_started_meanwhile() -> None:
    background, done = Background(), []

    async def second() -> None:
        await asyncio.sleep(0)
        done.append(2)

    async def first() -> None:
        await asyncio.sleep(0)
        background.start(second())
        done.append(1)

    background.start(first())
    await background.finish()
    assert done == [1, 2]
    await background.finish()
