"""Who has a place, who waits, who is sent away; and that no place is ever lost."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.server.places import Places
from tests.server.conftest import Clock
from tests.server.transport.raw_server import soon, until

pytestmark = pytest.mark.usefixtures("leaves_nothing")
LONG: Final = 1000.0


class Guest:
    """Takes a place and keeps it until told to go."""

    def __init__(self, places: Places) -> None:
        self.seated = False
        self._go = asyncio.Event()
        self.task = asyncio.create_task(self._visit(places))

    async def _visit(self, places: Places) -> None:
        async with places:
            self.seated = True
            await self._go.wait()

    async def leave(self) -> None:
        self._go.set()
        await soon(self.task)


async def turn_of_the_loop() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_in_the_order_of_asking() -> None:
    places = Places("b", 2, 3, LONG)
    guests = [Guest(places) for _ in range(5)]
    await turn_of_the_loop()
    assert [guest.seated for guest in guests] == [True, True, False, False, False]
    with pytest.raises(ProxyError) as caught:
        async with places:
            pass
    assert (caught.value.kind, caught.value.status, caught.value.retry_after) == ("overloaded", 503, 1)
    assert "2 requests and 3 wait" in caught.value.message
    for leaving, next_one in ((0, 2), (2, 3), (1, 4)):
        await guests[leaving].leave()
        await turn_of_the_loop()
        assert guests[next_one].seated
    for guest in guests[3:]:
        await guest.leave()
    assert places.taken == 0


async def test_no_longer_than_agreed(clock: Clock) -> None:
    places = Places("b", 1, 1, 5.0)
    first, second = Guest(places), Guest(places)
    await turn_of_the_loop()
    clock.advance(5.1)
    with pytest.raises(ProxyError) as caught:
        await soon(second.task)
    assert (caught.value.kind, caught.value.retry_after) == ("overloaded", 1)
    assert "5 s (timeouts.queue" in caught.value.message
    await first.leave()
    assert places.taken == 0


async def test_whether_the_next_one_has_to_wait() -> None:
    places = Places("b", 2, 3, LONG)
    assert places.requests == 2
    async with places:
        assert not places.is_full
        async with places:
            assert places.is_full
            third = Guest(places)
            await turn_of_the_loop()
            assert (places.taken, places.waiting) == (2, 1)
        await turn_of_the_loop()
        assert (places.taken, places.waiting) == (2, 0)
        await third.leave()
        assert not places.is_full


async def test_none_may_wait() -> None:
    places = Places("b", 1, 0, LONG)
    guest = Guest(places)
    await turn_of_the_loop()
    with pytest.raises(ProxyError):
        await places.__aenter__()
    await guest.leave()
    async with places:
        assert places.taken == 1


@pytest.mark.parametrize("moment", ["in line", "as the place comes"])
async def test_who_is_cancelled_keeps_no_place(moment: str) -> None:
    places = Places("b", 1, 5, LONG)
    first, second, third = Guest(places), Guest(places), Guest(places)
    await turn_of_the_loop()
    if moment == "as the place comes":
        first._go.set()
        await until(first.task.done)
    second.task.cancel()
    await asyncio.wait([second.task])
    assert second.task.cancelled()
    await first.leave()
    await until(lambda: third.seated)
    await third.leave()
    assert places.taken == 0


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_happens_no_place_is_lost(seed: int) -> None:
    chance = random.Random(seed)
    places = Places("b", 3, 4, LONG)
    guests: list[Guest] = []
    for _ in range(200):
        what = chance.choice(["come", "come", "leave", "cancel", "turn"])
        if what == "come":
            guests.append(Guest(places))
        elif what == "turn":
            await turn_of_the_loop()
        elif guests:
            guest = chance.choice(guests)
            guest.task.cancel() if what == "cancel" else guest._go.set()
        assert sum(guest.seated and not guest.task.done() for guest in guests) <= 3
    for guest in guests:
        guest._go.set()
    await asyncio.gather(*(guest.task for guest in guests), return_exceptions=True)
    assert places.taken == 0
    async with places:
        assert places.taken == 1
