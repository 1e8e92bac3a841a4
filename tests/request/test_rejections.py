"""The readers of rejections: each finds its own wordings, and nothing where the request has nothing of the kind."""

from __future__ import annotations

import pytest

from svir_proxy.request.named_fields import Said
from svir_proxy.request.rejections import READERS
from tests.request.support import ask, profile, rewrite
from tests.request.wordings import FACTS, FIELDS, Case

_NAMELESS = ("Gemini, nothing named", "no words at all")
_CASES = {name: case for name, case in FACTS.items() if name not in _NAMELESS}


def _found(case: Case, body: dict[str, object]) -> dict[str, dict[str, object]]:
    """What each reader makes of the case's words in answer to *body*."""
    said = Said(case.read(body, profile(case.facts)))
    return {read.__name__: dict(read(said, body)) for read in READERS if read(said, body)}


@pytest.mark.parametrize("name", _CASES)
def test_the_first_reader_that_finds_something_finds_the_fact(name: str) -> None:
    case = _CASES[name]
    found = _found(case, dict(rewrite(case.body, profile(case.facts)).body))
    if case.learned == {"optional_fields.reasoning_effort": "rejected"}:
        assert set(found) == {"read_reasoning_effort"}
    assert next(iter(found.values())) == {f"request.{path}": value for path, value in case.learned.items()}


@pytest.mark.parametrize("name", _CASES)
def test_the_same_words_about_another_request_say_nothing(name: str) -> None:
    assert _found(_CASES[name], ask(seed=1)) == {}


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_that_is_named_is_no_fact_of_a_reader(name: str) -> None:
    assert _found(FIELDS[name], FIELDS[name].body) == {}


def test_every_reader_has_a_case() -> None:
    used = {next(iter(_found(case, dict(rewrite(case.body, profile(case.facts)).body)))) for case in _CASES.values()}
    assert used == {read.__name__ for read in READERS}
