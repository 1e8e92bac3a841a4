from __future__ import annotations

import pytest

from svir_proxy.response.stages.text_calls.formats import CLOSERS, MARKERS, OPENINGS
from tests.support.text_calls import TOOLS, events_of, read

CALL = '[TOOL_CALLS]get_tide[ARGS]{"days": 1}'


@pytest.mark.parametrize("opening", OPENINGS)
def test_an_opening_alone_is_text(opening):
    assert read(opening) == (opening, [])
    assert read(f"{opening}later") == (f"{opening}later", [])


@pytest.mark.parametrize("marker", MARKERS)
def test_a_marker_is_held_no_longer_than_it_may_be_one(marker):
    for size in range(1, len(marker)):
        begun = f"So {marker[:size]}"
        assert "".join(event.text for event in events_of([begun, "\x00"])[:-1]) == f"{begun}\x00"


@pytest.mark.parametrize("closer", CLOSERS)
def test_a_closer_goes_with_the_call(closer):
    assert read(f"{CALL}\n{closer}\n Done.") == ("\n Done.", [("get_tide", {"days": 1})])
    assert read(f"Before {closer}") == (f"Before {closer}", [])


def test_names_are_matched_as_they_are():
    assert read('[TOOL_CALLS]a.b-c/d:e{"x": 1}', {**TOOLS, "a.b-c/d:e": {}}) == ("", [("a.b-c/d:e", {"x": 1})])
