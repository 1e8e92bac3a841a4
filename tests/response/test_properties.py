"""What holds for any bytes whatever: the core's contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from svir_proxy.client_request import ClientRequest
from svir_proxy.conform import dialect
from svir_proxy.conform.cases import load_cases
from svir_proxy.profiles.loader import load_profile
from svir_proxy.response.normalizer import Limits, StreamNormalizer
from svir_proxy.response.upstream_error import ErrorReader
from tests.support.core import answered_cases, normalize, profile_of, request_of, violations
from tests.support.mutations import cuts, mutated

if TYPE_CHECKING:
    from svir_proxy.conform.cases import Case
    from svir_proxy.profiles.schema import ErrorRule, Profile

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


EVENT = b'data: {"id":"a","created":1,"model":"m","choices":[{"index":0,"delta":{%b}}]}\n\n'
MEMBERS = st.sampled_from(
    [b'"content":"a"', b'"content": "b<"', b'"reasoning":"c"', b'"content":""', b'"content":null']
)
ODD = st.sampled_from(
    [b"\n", b"\r", b"\r\n", b"\n\n", b" ", b'"', b",", b":", b"data: ", b"\xff", b"\\ud83c", b"<think>"]
)


@example([(b'"content":"a"', (b"\n", 9))], b"\n\n", a_request(), 10_000)
@example([(b'"content":"a"', (b"\r", 9))], b"\n\n", a_request(), 10_000)
@settings(max_examples=10 * EXAMPLES)
@given(
    st.lists(st.tuples(MEMBERS, st.none() | st.tuples(ODD, st.integers(0, 20))), max_size=8),
    st.sampled_from([b"\n\n", b"\r\n\r\n"]),
    requests(),
    st.integers(60, 90) | st.just(10_000),
)
def test_events_that_repeat_are_read_as_in_any_other_cut(
    deltas: list[tuple[bytes, tuple[bytes, int] | None]], end: bytes, request_: ClientRequest, most: int
) -> None:
    """Each read is one event, which is what has a way of its own; whatever else may be in it."""
    reads = [(EVENT % b'"content":"a"').replace(b"\n\n", end)] * 3
    for delta, odd in deltas:
        read = (EVENT % delta).replace(b"\n\n", end)
        if odd is not None:
            at = len(read) - odd[1]
            read = read[:at] + odd[0] + read[at:]
        reads += [read, (EVENT % b'"content":"a"').replace(b"\n\n", end)]
    body = b"".join(reads)
    limits = Limits(event_bytes=most)

    def read_in(pieces: list[bytes]) -> object:
        return normalize(request_, GENERIC, pieces, limits=limits)

    assert read_in(reads) == read_in([body]) == read_in([body[i : i + 1] for i in range(len(body))])


@example([b"\xef\xbb\xbf", b"\xef"], a_request(), False)
@example([b'event: error\ndata: {"message": "\\ud83d"}\n\n'], a_request(), True)
@given(st.lists(st.binary(max_size=60), max_size=12), requests(), st.booleans())
def test_any_bytes_make_a_canonical_answer(pieces: list[bytes], request_: ClientRequest, clean: bool) -> None:
    events = normalize(request_, GENERIC, pieces, clean=clean)
    assert violations(request_, events) == []
    assert normalize(request_, GENERIC, [b"".join(pieces)], clean=clean) == events


@settings(max_examples=2 * EXAMPLES)
@given(
    mutated(SMALL) | st.binary(max_size=60) | st.binary(max_size=60).map(b"{".__add__),
    requests() | keys().map(lambda key: request_of(BY_KEY[key])),
    keys().map(lambda key: profile_of(BY_KEY[key])),
    st.sampled_from([Limits(), Limits(answer_bytes=20)]),
    st.booleans(),
)
def test_a_body_at_hand_is_read_as_one_that_comes(
    body: bytes, request_: ClientRequest, profile: Profile, limits: Limits, extras: bool
) -> None:
    at_hand, coming = (StreamNormalizer(request_, profile, limits, extras=extras) for _ in range(2))
    assert at_hand.receive_whole(body) == coming.receive_data(body) + coming.receive_eof(clean=True)
    for told in ("state", "error", "call_extras"):
        assert getattr(at_hand, told) == getattr(coming, told)
    assert at_hand.receive_data(body) == []


ERROR_BODIES = sorted({case.body for case in load_cases() if (case.response["status"] or 0) >= 300})
HEADERS = st.dictionaries(
    st.sampled_from(["retry-after", "retry-after-ms", "date"]),
    st.sampled_from(["0", "7", "0.5", "-1", "inf", "nan", "1e400", "soon", "", "Wed, 21 Oct 2026 07:28:00 GMT"]),
)


@settings(max_examples=2 * EXAMPLES)
@example(400, {}, b'{"error":{"message":"\\ud83d"}}', a_request(), [])
@given(
    st.integers(300, 599),
    HEADERS,
    mutated(ERROR_BODIES) | st.binary(max_size=60),
    requests() | keys().map(lambda key: request_of(BY_KEY[key])),
    keys().map(lambda key: profile_of(BY_KEY[key]).errors),
)
def test_any_error_body_makes_an_envelope(
    status: int, headers: dict[str, str], body: bytes, request_: ClientRequest, rules: list[ErrorRule]
) -> None:
    error = ErrorReader(request_, rules).from_response(status, headers, body)
    assert dialect.check_error(error.body()) == []
    wait = dict(error.headers()).get(b"retry-after")
    assert (wait is not None) == (error.status in (429, 503))
    assert wait is None or 0 <= int(wait) <= 60
