"""What is learned counts for one backend and model, for a while, in bounded memory."""

from __future__ import annotations

import pytest

from svir_proxy.server.learned import Learned
from tests.server.conftest import Clock


async def test_it_counts_for_this_backend_and_model() -> None:
    learned = Learned()
    learned.learn("b", "m", frozenset({"user"}))
    learned.learn("b", "m", frozenset({"seed"}))
    assert learned.rejected("b", "m") == {"user", "seed"}
    assert learned.rejected("b", "other") == learned.rejected("other", "m") == frozenset()


async def test_each_field_is_tried_again_after_an_hour(clock: Clock) -> None:
    learned = Learned()
    learned.learn("b", "m", frozenset({"user"}))
    clock.advance(3000)
    learned.learn("b", "m", frozenset({"seed"}))
    clock.advance(700)
    assert learned.rejected("b", "m") == {"seed"}
    clock.advance(3000)
    assert learned.rejected("b", "m") == frozenset()
    learned.learn("b", "m", frozenset({"user"}))
    assert learned.rejected("b", "m") == {"user"}


@pytest.mark.parametrize("again", [False, True], ids=["forgotten", "kept, being in use"])
async def test_clients_that_name_thousands_of_models_push_out_what_is_oldest(again) -> None:
    learned = Learned()
    for number in range(1000):
        learned.learn("b", str(number), frozenset({"user"}))
    if again:
        learned.learn("b", "0", frozenset({"seed"}))
    learned.learn("b", "one more", frozenset({"user"}))
    assert learned.rejected("b", "0") == ({"user", "seed"} if again else frozenset())
    assert learned.rejected("b", "1") == (frozenset() if again else {"user"})
    assert learned.rejected("b", "999") == {"user"}
