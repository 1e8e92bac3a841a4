"""What a rejection teaches: the servers' own wordings, read as the proxy reads them, and the second try they lead to."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.errors import KINDS, ProxyError
from svir_proxy.profiles.loader import builtin_names, load_profile
from svir_proxy.profiles.schema import Profile
from svir_proxy.request.retry import apply_learned, learn_from
from tests.request.strategies import ANY_BODY
from tests.request.support import PLAIN, ask, differences, profile, rewrite
from tests.request.wordings import FACTS, FIELDS, NOTHING, REJECTED, Case


def _learn(case: Case) -> tuple[Profile, dict[str, Any], dict[str, Any]]:
    """The server's profile, the body it was sent, and what its answer teaches."""
    served = profile(case.facts)
    sent = dict(rewrite(case.body, served).body)
    return served, sent, learn_from(case.read(case.body, served), sent, served)


@pytest.mark.parametrize("name", [*FIELDS, *FACTS])
def test_a_rejection_teaches_a_fact_and_the_second_try_follows_it(name: str) -> None:
    case = FIELDS.get(name) or FACTS[name]
    served, sent, learned = _learn(case)
    assert learned == {f"request.{path}": value for path, value in case.learned.items()}
    wiser = apply_learned(served, learned)
    assert Profile.model_validate(wiser.model_dump()) == wiser
    again = dict(rewrite(case.body, wiser).body)
    changes = differences(sent, again)
    assert changes, "the second try is the first one"
    for field, value in case.changes.items():
        assert field in changes
        assert value is None or changes[field] == value
    more = learn_from(case.read(case.body, wiser), again, wiser)
    assert not learned.items() & more.items(), "the same is learned twice"


@pytest.mark.parametrize("name", NOTHING)
def test_an_error_about_something_else_teaches_nothing(name: str) -> None:
    assert _learn(NOTHING[name])[2] == {}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_only_rejections_teach(kind: str) -> None:
    learned = learn_from(ProxyError(kind, "Unknown parameter: 'store'"), ask(store=True), PLAIN)
    taught = {
        "invalid_request": {"request.optional_fields.store": REJECTED},
        "unsupported_parameter": {"request.optional_fields.store": REJECTED},
        "file_not_supported": {"request.files": REJECTED},  # a text file can go as text
    }
    assert learned == taught.get(kind, {})


def test_what_is_learned_is_bounded_by_what_can_be_a_fields_name() -> None:
    names = ["a b", "x" * 65, "ä", "1a", "a.b", "a-b"]
    body = ask(**dict.fromkeys(names, 1))
    for name in names:
        assert learn_from(ProxyError("unsupported_parameter", f"Unknown parameter: '{name}'", name), body, PLAIN) == {}
    many = {f"field_{number}": 1 for number in range(1000)}
    served = profile({"unknown_fields": "unknown"})
    assert len(learn_from(ProxyError("invalid_request", "Bad Request"), ask(**many), served)) < 100


_FACTS: Final = st.dictionaries(
    st.sampled_from(
        ["request.late_system", "request.tools", "request.tool_choice.named", "request.optional_fields.store"]
    ),
    st.sampled_from(["kept", "ignored", "rejected", "unknown"]),
)


@given(_FACTS, st.sampled_from([load_profile(name) for name in builtin_names()]))
def test_learned_facts_and_no_others_are_changed(facts: dict[str, Any], served: Profile) -> None:
    before = served.model_dump()
    wiser = apply_learned(served, facts)
    assert served.model_dump() == before
    for path, value in facts.items():
        assert wiser.fact(path) == value
    undone = {path: served.fact(path) for path in facts if path != "request.optional_fields.store"}
    back = apply_learned(wiser, undone).model_dump()
    back["request"]["optional_fields"] = before["request"]["optional_fields"]
    assert back == before


def test_nothing_learned_is_the_same_profile() -> None:
    assert apply_learned(PLAIN, {}) is PLAIN


_ERRORS: Final = [case.read(case.body, profile(case.facts)) for case in (*FIELDS.values(), *FACTS.values())]


@given(ANY_BODY, st.sampled_from(_ERRORS))
def test_any_body_is_looked_at(body: dict[str, Any], error: ProxyError) -> None:
    learned = learn_from(error, body, PLAIN)
    assert Profile.model_validate(apply_learned(PLAIN, learned).model_dump())


@given(st.text(max_size=80), st.none() | st.text(max_size=20), st.sampled_from([case.body for case in FACTS.values()]))
def test_any_words_are_read(message: str, param: str | None, body: dict[str, Any]) -> None:
    learned = learn_from(ProxyError("invalid_request", message, param), body, PLAIN)
    assert Profile.model_validate(apply_learned(PLAIN, learned).model_dump())
