"""Awaiting a future for so many seconds: a tenth of the price of `asyncio.timeout`, which every request would pay."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import httpx

T = TypeVar("T")


async def within(future: asyncio.Future[T], seconds: float | None, late: type[httpx.TimeoutException], text: str) -> T:
    """The result of *future*, which itself fails with *late* after *seconds* (None: no limit)."""
    if seconds is None:
        return await future
    timer = asyncio.get_running_loop().call_later(seconds, _fail, future, late, text)
    try:
        return await future
    finally:
        timer.cancel()


def _fail(future: asyncio.Future[T], late: type[httpx.TimeoutException], text: str) -> None:
    if not future.done():
        future.set_exception(late(text))
