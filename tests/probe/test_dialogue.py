"""How several answers become one verdict, and how they are put into words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from svir_proxy.probe.answer import Answer, Ask, Call, Reading
from svir_proxy.probe.dialogue import demand, excerpt, gained, in_words, taken
from svir_proxy.probe.finding import Finding
from svir_proxy.probe.subject import Subject
from tests.probe.support import GENERIC

ASK = Ask({})


def _reading(text: str = "x", **more: Any) -> Reading:
    return Reading("answered", text=text, finish="stop", answer=Answer(200), **more)


REFUSED = Reading("refused", words="400 no")


@pytest.mark.parametrize(
    ("seen", "verdict", "asked"),
    [
        ([True, True, False], "kept", 2),
        ([True, None, True], "kept", 3),
        ([False, False, False], "ignored", 3),
        ([False, True, False], "ignored", 3),
        ([False, True, True], "unknown", 3),
        ([None, None, None], "unknown", 3),
        ([False, None, None], "unknown", 3),
        ([True, None, None], "unknown", 3),
        (["refused"], "rejected", 1),
        ([True, "refused"], "rejected", 2),
    ],
)
def test_one_failure_is_no_verdict(seen: Sequence[Any], verdict: str, asked: int) -> None:
    told = iter(seen)
    dialogue = demand("f", (ASK for _ in seen), lambda reading: reading.text == "True" if reading.text else None)
    step, times = next(dialogue), 0
    while isinstance(step, Ask):
        say, times = next(told), times + 1
        step = dialogue.send(REFUSED if say == "refused" else _reading("" if say is None else str(say)))
    assert (step.value, times) == (verdict, asked)
    with pytest.raises(StopIteration) as ended:
        next(dialogue)
    assert ended.value.value == verdict


@pytest.mark.parametrize(
    ("reading", "finding"),
    [(_reading(), Finding("f", "kept", "seen")), (REFUSED, Finding("f", "rejected", "400 no"))],
)
def test_taken(reading: Reading, finding: Finding) -> None:
    dialogue = taken("f", ASK, "kept", "seen")
    assert next(dialogue) is ASK
    assert dialogue.send(reading) == finding


@pytest.mark.parametrize(
    ("reading", "words"),
    [
        (_reading("Hello\nyou"), 'text "Hello you"'),
        (_reading(""), "nothing"),
        (_reading("", reasoning="hm"), "reasoning alone"),
        (Reading("answered", text="Hel", finish="length"), 'text "Hel", finished with length'),
        (_reading("", calls=(Call("f", "{}"), Call("g", "{}"))), "a call f({}), g({})"),
        (_reading("", calls=(Call("f", "{}"),), written=True), "text of a call f({})"),
        (REFUSED, "400 no"),
    ],
)
def test_an_answer_in_words(reading: Reading, words: str) -> None:
    assert in_words(reading) == words


def test_a_long_text_is_cut() -> None:
    assert excerpt("word " * 100) == "word " * 16 + "…"


@pytest.mark.parametrize(
    ("counts", "usages", "rise"), [(True, (7, 3), 4), (False, (7, 3), None), (True, (7, None), None)]
)
def test_what_a_prompt_gained(*, counts: bool, usages: tuple[Any, Any], rise: int | None) -> None:
    from svir_proxy.probe.answer import Raw

    more, less = (Reading("answered", raw=Raw(usage={"prompt_tokens": count})) for count in usages)
    assert gained(Subject(model="m", base=GENERIC, counts=counts), more, less) == rise
