"""Counters outlive the configuration that they were made for."""

from __future__ import annotations

import pytest

from svir_proxy.server.quotas.counting_place import CountingPlace
from svir_proxy.server.quotas.memory import MemoryCounters
from svir_proxy.settings import AuthSettings

pytestmark = pytest.mark.usefixtures("leaves_nothing")

MEMORY = AuthSettings()
STORE = {"store": "redis://127.0.0.1:1/0"}


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ({}, {"limits": {"requests_per_day": 1}}, True),
        ({}, STORE, False),
        (STORE, {}, False),
        (STORE, STORE, True),
        (STORE, STORE | {"store_down": "closed"}, True),
        (STORE, STORE | {"store_seconds": 3}, False),
        (STORE, {"store": "redis://127.0.0.1:1/1"}, False),
    ],
)
async def test_the_next_one_takes_it_on_where_it_is_the_same(
    before: dict[str, str], after: dict[str, str], *, is_same: bool
) -> None:
    place = CountingPlace(AuthSettings.model_validate(before))
    shared = place.shared_with(AuthSettings.model_validate(after))
    assert (shared is place) if is_same else (shared is None)
    for _ in range(1 + is_same):
        await place.leave()


async def test_it_is_closed_with_the_last_of_its_users(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    async def close(self: MemoryCounters) -> None:
        closed.append(True)

    monkeypatch.setattr(MemoryCounters, "close", close)
    place = CountingPlace(MEMORY)
    assert place.shared_with(MEMORY) is place
    await place.leave()
    assert not closed
    await place.leave()
    assert closed
