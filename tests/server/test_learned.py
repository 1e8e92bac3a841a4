"""What is learned counts for one backend and model, for a while, in bounded memory."""

from __future__ import annotations

import gc
import weakref
from typing import Final

import pytest

from svir_proxy.profiles import load_profile
from svir_proxy.profiles.schema import Profile
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


PLAIN: Final = load_profile("openai")


def _fields(learned: Learned, profile: Profile = PLAIN) -> dict[str, str]:
    """The optional fields of which more is known than *profile* says."""
    applied = learned.apply(profile, "b", "m").request.optional_fields
    return {name: fact for name, fact in applied.items() if fact != profile.request.optional_fields.get(name)}


async def test_a_profile_is_as_it_was_learned_to_be(clock: Clock) -> None:
    learned = Learned()
    assert learned.apply(PLAIN, "b", "m") is PLAIN
    learned.learn("b", "m", USER)
    once = learned.apply(PLAIN, "b", "m")
    assert _fields(learned) == {"user": "rejected"}
    assert learned.apply(PLAIN, "b", "m") is once, "made once"
    assert learned.apply(PLAIN, "b", "other") is learned.apply(PLAIN, "other", "m") is PLAIN
    clock.advance(3000)
    learned.learn("b", "m", SEED)
    assert _fields(learned) == {"user": "rejected", "seed": "rejected"}, "what is news counts at once"
    clock.advance(700)
    assert _fields(learned) == {"seed": "rejected"}, "what is old is doubted, fact by fact"
    assert learned.apply(PLAIN, "b", "m") is learned.apply(PLAIN, "b", "m")
    clock.advance(3000)
    assert learned.apply(PLAIN, "b", "m") == PLAIN
    learned.learn("b", "m", USER)
    assert _fields(learned) == {"user": "rejected"}


async def test_another_profile_is_another() -> None:
    learned = Learned()
    learned.learn("b", "m", SEED)
    other = load_profile("generic")
    assert _fields(learned) == _fields(learned, other) == _fields(learned) == {"seed": "rejected"}
    assert learned.apply(other, "b", "m").name == "generic"


async def test_profiles_of_models_that_are_pushed_out_are_not_kept() -> None:
    learned = Learned()
    learned.learn("b", "m", USER)
    applied = weakref.ref(learned.apply(PLAIN, "b", "m"))
    assert applied() is not None
    for number in range(1000):
        learned.learn("b", str(number), USER)
    gc.collect()
    assert applied() is None
    assert learned.apply(PLAIN, "b", "m") is PLAIN
