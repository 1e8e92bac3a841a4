"""What is learned counts for one backend and model, for a while, in bounded memory."""

from __future__ import annotations

from typing import Final

import pytest

from svir_proxy.server.learned import Facts, Learned
from tests.server.conftest import Clock

USER: Final[Facts] = {"request.optional_fields.user": "rejected"}
SEED: Final[Facts] = {"request.optional_fields.seed": "rejected"}


async def test_it_counts_for_this_backend_and_model() -> None:
    learned = Learned()
    learned.learn("b", "m", USER)
    learned.learn("b", "m", SEED)
    assert learned.facts("b", "m") == {**USER, **SEED}
    assert learned.facts("b", "other") == learned.facts("other", "m") == {}


async def test_what_was_learned_last_counts() -> None:
    learned = Learned()
    learned.learn("b", "m", USER)
    learned.learn("b", "m", dict.fromkeys(USER))
    assert learned.facts("b", "m") == dict.fromkeys(USER)


async def test_each_fact_is_doubted_after_an_hour(clock: Clock) -> None:
    learned = Learned()
    learned.learn("b", "m", USER)
    clock.advance(3000)
    learned.learn("b", "m", SEED)
    clock.advance(700)
    assert learned.facts("b", "m") == SEED
    clock.advance(3000)
    assert learned.facts("b", "m") == {}
    learned.learn("b", "m", USER)
    assert learned.facts("b", "m") == USER


@pytest.mark.parametrize("again", [False, True], ids=["forgotten", "kept, being in use"])
async def test_clients_that_name_thousands_of_models_push_out_what_is_oldest(again) -> None:
    learned = Learned()
    for number in range(1000):
        learned.learn("b", str(number), USER)
    if again:
        learned.learn("b", "0", SEED)
    learned.learn("b", "one more", USER)
    assert learned.facts("b", "0") == ({**USER, **SEED} if again else {})
    assert learned.facts("b", "1") == ({} if again else USER)
    assert learned.facts("b", "999") == USER


async def test_what_is_handed_on_is_of_these_backends_and_apart_from_then_on() -> None:
    learned = Learned()
    learned.learn("b", "m", USER)
    learned.learn("other", "m", USER)
    handed = learned.of({"b"})
    learned.learn("b", "m", SEED)
    assert (handed.facts("b", "m"), handed.facts("other", "m")) == (USER, {})
