"""Deltas that repeat the whole text so far, as a profile says."""

from __future__ import annotations

import pytest

from svir_proxy.response.events import ContentDelta as Content
from svir_proxy.response.events import Ended
from svir_proxy.response.events import ReasoningDelta as Reasoning
from svir_proxy.response.stages.cumulative import Cumulative

LIMIT = 20

DELTAS = {
    "the text so far and more": (["Tide", "Tide is", "Tide is in."], ["Tide", " is", " in."]),
    "a doubled letter is more": (["a", "aa", "aaa"], ["a", "a", "a"]),
    "the whole text once more": (["Tide is", "Tide is"], ["Tide is"]),
    "an earlier state once more": (["Tide is", "Tide", "Tide is in."], ["Tide is", " in."]),
    "line ends are kept": (["a\r\n", "a\r\nb\r"], ["a\r\n", "b\r"]),
    "increments after all": (["Tide", " is", " in."], ["Tide", " is", " in."]),
    "an increment, then all of it": (["Tide", " is", "Tide is in."], ["Tide", " is", " in."]),
    "a text longer than any delta can be is forgotten": (["x" * 21, "y", "x" * 21], ["x" * 21, "y", "x" * 21]),
}


@pytest.mark.parametrize(("deltas", "expected"), DELTAS.values(), ids=DELTAS)
def test_only_what_is_new(deltas, expected):
    out = []
    stage = Cumulative(out.append, LIMIT)
    for text in deltas:
        stage.feed(Content(text))
    assert out == [Content(text) for text in expected]


def test_other_events_pass():
    out = []
    stage = Cumulative(out.append, LIMIT)
    events = [Content("a"), Reasoning("a"), Content("ab"), Reasoning("a"), Ended()]
    for event in events:
        stage.feed(event)
    assert out == [Content("a"), Reasoning("a"), Content("b"), Reasoning("a"), Ended()]
