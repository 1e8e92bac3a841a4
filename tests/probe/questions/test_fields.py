from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.probe.questions import fields
from svir_proxy.probe.questions.fields import ABOUT_FIELDS, SILENT
from svir_proxy.probe.questions.opening import OPENING
from tests.probe.simulated import GREETING, Simulated
from tests.probe.support import Held, hold


def _asked(server: Simulated) -> Held:
    return hold(server, [*OPENING, *ABOUT_FIELDS])


def test_fields_that_are_all_taken_are_asked_for_once() -> None:
    server = Simulated()
    assert _asked(server)["optional_fields.store"].value == "unknown"
    assert sum("store" in body for body in server.asked) == 1


def test_one_that_is_refused_is_found_among_them() -> None:
    held = _asked(Simulated({"optional_fields.metadata": "rejected"}))
    found = {name for name in SILENT if held[f"optional_fields.{name}"].value == "rejected"}
    assert found == {"metadata"}


@pytest.mark.parametrize(
    ("refused", "instead"),
    [
        ({"minimal"}, {"minimal": "low"}),
        ({"xhigh", "minimal"}, {"minimal": "low", "xhigh": "high"}),
        ({"none", "minimal", "low"}, {"none": None, "minimal": "medium", "low": "medium"}),
    ],
)
def test_words_of_effort_that_are_refused(refused: set[str], instead: dict[str, Any]) -> None:
    server = Simulated({"reasoning_efforts": dict.fromkeys(refused)}, thinks=True)
    assert _asked(server)["reasoning_efforts"].value == instead


@pytest.mark.parametrize(("thinks", "fact", "found"), [
    (True, "kept", "kept"), (True, "ignored", "ignored"), (False, "ignored", "unknown"), (False, "kept", "kept"),
])  # fmt: skip
def test_what_effort_changes(*, thinks: bool, fact: str, found: str) -> None:
    held = _asked(Simulated({"optional_fields.reasoning_effort": fact}, thinks=thinks))
    assert held["optional_fields.reasoning_effort"].value == found


def test_less_effort_need_not_show() -> None:
    held = _asked(
        Simulated({"reasoning_efforts": {"none": "low"}, "optional_fields.reasoning_effort": "ignored"}, thinks=True)
    )
    assert held["optional_fields.reasoning_effort"].value == "unknown"


class Varied(Simulated):
    """Its model never says the same twice, unless it keeps the seed."""

    numbers = itertools.count()

    def _say(self, body: Mapping[str, Any], visible: list[str], tools: list[str]) -> tuple[str, list[str]]:
        if body.get("temperature") != 1.0:
            return super()._say(body, visible, tools)
        kept = "seed" in body and self.fact("optional_fields.seed") == "kept"
        return f"Hello, number {'seven' if kept else next(self.numbers)}!", []


@pytest.mark.parametrize("fact", ["kept", "ignored", "rejected"])
def test_a_seed(fact: str) -> None:
    assert _asked(Varied({"optional_fields.seed": fact}))["optional_fields.seed"].value == fact


class Stops(Simulated):
    """Greets, and does with stop sequences what *stop* does: control and sequence to the answer."""

    def __init__(self, stop: Callable[[str, str], str], control: str = GREETING) -> None:
        super().__init__()
        self.stop, self.control = stop, control

    def _say(self, body: Mapping[str, Any], visible: list[str], tools: list[str]) -> tuple[str, list[str]]:
        sequences = body.get("stop")
        return (self.stop(self.control, sequences[0]) if sequences else self.control), []

    def _honours(self, path: str, *, present: bool = True) -> bool:
        return path != "stop" and super()._honours(path, present=present)


def _ends(control: str, sequence: str) -> str:
    return control.partition(sequence)[0]


def _cuts_out(control: str, sequence: str) -> str:
    return control.replace(sequence, "")


@pytest.mark.parametrize(
    ("stop", "found"),
    [
        (_ends, "kept"),
        (lambda control, _: control, "ignored"),
        (_cuts_out, "ignored"),  # and the generation goes on
        # ends where the tokens are those of the sequence, which half words have others of
        (lambda control, sequence: (_ends if sequence[0] == " " else _cuts_out)(control, sequence), "ignored"),
        (lambda *_: "Good morning.", "unknown"),
        (lambda *_: "", "unknown"),
    ],
)
def test_a_stop_sequence(stop: Callable[[str, str], str], found: str) -> None:
    assert _asked(Stops(stop))["stop"].value == found


@pytest.mark.parametrize("control", ["", "Hello!", "Good morning!"])
def test_a_short_answer_has_nothing_to_stop_at(control: str) -> None:
    assert _asked(Stops(_ends, control))["stop"].value == "unknown"


@given(st.text("ab \n", min_size=1))
def test_what_to_stop_at_is_in_the_answer_and_begins_behind_its_beginning(control: str) -> None:
    for sequence in fields._sequences(control):
        assert sequence.strip()
        assert control.find(sequence) >= 0
