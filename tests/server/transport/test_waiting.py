"""Waiting with a limit, and without one."""

from __future__ import annotations

import asyncio
import gc
import weakref

import httpx
import pytest

from svir_proxy.server.transport.waiting import within
from tests.server.transport.raw_server import soon


@pytest.mark.parametrize("seconds", [None, 1000.0])
async def test_the_result_comes_through(seconds: float | None) -> None:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(future.set_result, 7)
    assert await soon(within(future, seconds, httpx.ReadTimeout, "late")) == 7


async def test_the_future_itself_fails_when_it_is_late() -> None:
    future = asyncio.get_running_loop().create_future()
    with pytest.raises(httpx.ReadTimeout, match="late"):
        await soon(within(future, 0.001, httpx.ReadTimeout, "late"))
    assert isinstance(future.exception(), httpx.ReadTimeout)


async def test_a_result_and_the_limit_in_the_same_turn() -> None:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    waiting = asyncio.ensure_future(within(future, 0, httpx.ReadTimeout, "late"))
    await asyncio.sleep(0)
    future.set_result(7)
    assert await soon(waiting) == 7


async def test_nothing_is_kept_until_the_time_is_up() -> None:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    kept = weakref.ref(future)
    loop.call_soon(future.set_result, 7)
    await soon(within(future, 1000, httpx.ReadTimeout, "late"))
    del future
    await asyncio.sleep(0)  # the loop lets go of what woke this test
    gc.collect()
    assert kept() is None
