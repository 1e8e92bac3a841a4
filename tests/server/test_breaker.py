"""When a backend is asked in its turn, told as a story: each line is what happens, when, and how it stands after."""

from __future__ import annotations

import pytest

from svir_proxy.server.breaker import Breakers

KEY = ("b", "m")
OTHER = ("b", "n")

FAIL, OK, BEGIN, LEAVE = "fail", "ok", "begin", "leave"

STORIES = {
    "opens after three in a row, and a success in between begins anew": [
        (0, FAIL, "closed", True),
        (0, FAIL, "closed", True),
        (1, OK, "closed", True),
        (2, FAIL, "closed", True),
        (2, FAIL, "closed", True),
        (3, FAIL, "open", False),
        (12.9, None, "open", False),
        (13, None, "half_open", True),
    ],
    "half open: one tries, and the rest wait for what comes of it": [
        *[(0, FAIL, *rest) for rest in (("closed", True), ("closed", True), ("open", False))],
        (10, BEGIN, "half_open", False),
        (11, OK, "closed", True),
        (11, FAIL, "closed", True),
    ],
    "half open: one that fails closes it again for as long": [
        *[(0, FAIL, *rest) for rest in (("closed", True), ("closed", True), ("open", False))],
        (10, BEGIN, "half_open", False),
        (14, FAIL, "open", False),
        (23, None, "open", False),
        (24, None, "half_open", True),
    ],
    "half open: one that leaves lets another try": [
        *[(0, FAIL, *rest) for rest in (("closed", True), ("closed", True), ("open", False))],
        (10, BEGIN, "half_open", False),
        (12, LEAVE, "half_open", True),
    ],
    "open: who asks all the same and fails does not make it longer, who is answered closes it": [
        *[(0, FAIL, *rest) for rest in (("closed", True), ("closed", True), ("open", False))],
        (4, BEGIN, "open", False),
        (5, FAIL, "open", False),
        (10, None, "half_open", True),
        (10, BEGIN, "half_open", False),
        (11, FAIL, "open", False),
        (12, OK, "closed", True),
    ],
    "a server that asks to be left alone is, at once and for as long as it says": [
        (0, (FAIL, 2), "open", False),
        (2, None, "half_open", True),
        (2, BEGIN, "half_open", False),
        (3, OK, "closed", True),
    ],
    "but not for longer than a client would be told": [(0, (FAIL, 3600), "open", False), (60, None, "half_open", True)],
    "the longer wait counts": [
        (0, (FAIL, 30), "open", False),
        (1, (FAIL, 2), "open", False),
        (29, None, "open", False),
        (30, None, "half_open", True),
    ],
    "no wait is none": [(0, (FAIL, 0), "closed", True)],
    "leaving a server that is well says nothing": [(0, BEGIN, "closed", True), (1, LEAVE, "closed", True)],
}


@pytest.mark.parametrize("story", STORIES)
def test_a_story(story: str) -> None:
    breakers = Breakers(3, 10)
    for now, what, state, admits in STORIES[story]:
        if what == BEGIN:
            breakers.begin(KEY, now)
        elif what == OK:
            breakers.succeeded(KEY)
        elif what == LEAVE:
            breakers.gave_up(KEY)
        elif what is not None:
            breakers.failed(KEY, now, *what[1:] if isinstance(what, tuple) else ())
        assert (breakers.state(KEY, now), breakers.admits(KEY, now)) == (state, admits), (now, what)
        assert (breakers.state(OTHER, now), breakers.admits(OTHER, now)) == ("closed", True), "another model's affair"


def test_opening_and_closing_are_told_once() -> None:
    breakers = Breakers(2, 10)
    assert [breakers.failed(KEY, now) for now in (0, 1, 2, 11)] == [False, True, False, False]
    assert [breakers.succeeded(KEY) for _ in range(2)] == [True, False]
    assert (breakers.failed(KEY, 20), breakers.succeeded(KEY)) == (False, False)


def test_a_server_that_was_seen_again_may_be_tried() -> None:
    breakers = Breakers(1, 100)
    for key in (KEY, OTHER, ("c", "m")):
        breakers.failed(key, 0)
    breakers.returned("b", 5)
    assert breakers.states(5) == {KEY: "half_open", OTHER: "half_open", ("c", "m"): "open"}
    breakers.returned("b", 7)
    assert breakers.state(KEY, 6) == "half_open", "no sooner, and no later"


def test_what_a_new_configuration_keeps() -> None:
    old, new = Breakers(1, 10), Breakers(1, 10)
    old.failed(KEY, 0)
    old.failed(("changed", "m"), 0)
    old.begin(KEY, 10)
    new.keep(old, {"b"})
    assert new.states(5) == {KEY: "open"}
    assert new.admits(KEY, 10), "who tries it tells the old one"
    new.succeeded(KEY)
    assert old.state(KEY, 5) == "open"


def test_clients_that_name_many_models_do_not_fill_the_memory() -> None:
    breakers = Breakers(1, 10)
    for number in range(3000):
        breakers.failed(("b", str(number)), 0)
    assert len(breakers.states(0)) == 1000
    assert breakers.state(("b", "2999"), 0) == "open"
