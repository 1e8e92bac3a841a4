"""What holds for any bytes whatever: the core's contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svir_proxy.client_request import ClientRequest
from svir_proxy.profiles.loader import load_profile
from tests.support.core import answered_cases, normalize, profile_of, request_of, violations
from tests.support.mutations import cuts, mutated

if TYPE_CHECKING:
    from tests.support.cases import Case

CASES = answered_cases()
BY_KEY = {case.key: case for case in CASES if len(case.body) < 40_000}
SMALL = [case.body for case in CASES if len(case.body) < 12_000]
EXAMPLES = settings().max_examples
GENERIC = load_profile("generic")

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("look", "lookup", "f")
]


def a_request(**fields: object) -> ClientRequest:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True, **fields}
    return ClientRequest.from_body(body, id="req-1", received=1_790_000_000)


def keys() -> st.SearchStrategy[str]:
    """Of cases; a failure prints what was drawn, and a whole case is long."""
    return st.sampled_from(list(BY_KEY))


@st.composite
def requests(draw: st.DrawFn) -> ClientRequest:
    """Requests that differ in what the way back depends on."""
    fields: dict[str, object] = {"stream": draw(st.booleans())}
    if draw(st.booleans()):
        fields["stream_options"] = {"include_usage": True}
    if draw(st.booleans()):
        fields["tools"] = TOOLS
        fields["tool_choice"] = draw(
            st.sampled_from(["auto", "none", "required", {"type": "function", "function": {"name": "look"}}])
        )
    return a_request(**fields)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_a_case_is_canonical(case: Case) -> None:
    request = request_of(case)
    clean = not case.response.get("cut")
    assert violations(request, normalize(request, profile_of(case), [case.body], clean=clean)) == []


@settings(max_examples=2 * EXAMPLES)
@given(st.data())
def test_the_cut_of_the_bytes_changes_nothing(data: st.DataObject) -> None:
    case = BY_KEY[data.draw(keys())]
    request, profile = request_of(case), profile_of(case)
    pieces = data.draw(cuts(case.body))
    assert normalize(request, profile, pieces) == normalize(request, profile, [case.body])


@settings(max_examples=4 * EXAMPLES)
@given(st.data())
def test_broken_bodies_make_canonical_answers(data: st.DataObject) -> None:
    body = data.draw(mutated(SMALL))
    request, clean = data.draw(requests() | keys().map(lambda key: request_of(BY_KEY[key]))), data.draw(st.booleans())
    profile = profile_of(BY_KEY[data.draw(keys())])
    events = normalize(request, profile, [body], clean=clean)
    assert violations(request, events) == []
    assert normalize(request, profile, data.draw(cuts(body)), clean=clean) == events


@given(st.lists(st.binary(max_size=60), max_size=12), requests(), st.booleans())
def test_any_bytes_make_a_canonical_answer(pieces: list[bytes], request_: ClientRequest, clean: bool) -> None:
    events = normalize(request_, GENERIC, pieces, clean=clean)
    assert violations(request_, events) == []
    assert normalize(request_, GENERIC, [b"".join(pieces)], clean=clean) == events
