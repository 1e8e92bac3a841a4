"""Whose cancellation it was."""

from __future__ import annotations

import asyncio

import pytest

from svir_proxy.server.interruption import Interruption

# name: (interruptions made, whether somebody else cancels too, what the task finds)
CASES = {
    "nobody": (0, False, "went on"),
    "this reason": (1, False, "interrupted"),
    "this reason, said twice": (2, False, "interrupted"),
    "somebody else": (0, True, "cancelled"),
    "both": (1, True, "cancelled"),
}


@pytest.mark.parametrize("name", CASES)
async def test_whose_it_is(name: str) -> None:
    made, cancelled, expected = CASES[name]
    go = asyncio.Event()
    interruptions: list[Interruption] = []

    async def work() -> str:
        interruption = Interruption()
        interruptions.append(interruption)
        try:
            await go.wait()
        except asyncio.CancelledError:
            return "interrupted" if interruption.is_all() else "cancelled"
        assert not interruption.is_all()
        return "went on"

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    for _ in range(made):
        interruptions[0].make()
    if cancelled:
        task.cancel()
    if not made and not cancelled:
        go.set()
    assert await task == expected
    assert interruptions[0].made is bool(made)
    assert task.cancelling() == int(cancelled), "what it took, it gave back"


async def test_what_was_cancelled_before_is_no_part_of_it() -> None:
    async def work() -> bool:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)
        interruption = Interruption()
        interruption.make()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)
        return interruption.is_all()

    assert await asyncio.create_task(work())
