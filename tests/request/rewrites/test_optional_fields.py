"""Optional and foreign fields: the decision table, and what is never left out."""

from __future__ import annotations

from typing import Any

import pytest

from svir_proxy.request.rewrites.optional_fields import DEMANDS, is_foreign
from tests.request.support import GONE, PLAIN, Outcome, ask, outcome

SENT = Outcome({}, [])


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("kept", SENT),
        ("unknown", SENT),
        ("ignored", Outcome({}, ["ignored=store"])),
        ("rejected", Outcome({"store": GONE}, ["drop=store"])),
    ],
)
def test_an_optional_field(fact: str, expected: Outcome) -> None:
    assert outcome(ask(store=True), {"optional_fields.store": fact}) == expected


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("kept", SENT),
        ("unknown", SENT),
        ("ignored", SENT),
        ("rejected", Outcome({"top_k": GONE, "min_p": GONE}, ["drop=top_k", "drop=min_p"])),
    ],
)
def test_fields_outside_the_protocol(fact: str, expected: Outcome) -> None:
    body = ask(top_k=3, min_p=0.1, temperature=0.5, seed=1, metadata={"a": "b"})
    assert outcome(body, {"unknown_fields": fact}) == expected


def test_a_foreign_field_that_the_profile_knows_is_no_foreign_one() -> None:
    facts = {"unknown_fields": "rejected", "optional_fields.top_k": "kept"}
    assert outcome(ask(top_k=3), facts) == SENT


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("parallel_tool_calls", False, True),
        ("parallel_tool_calls", True, False),
        ("store", False, False),
        ("frequency_penalty", 0, False),
        ("frequency_penalty", 0.1, True),
        ("metadata", {}, False),
        ("seed", 7, True),
    ],
)
def test_an_ignored_field_is_told_where_it_says_something(field: str, value: Any, told: bool) -> None:
    assert outcome(ask(**{field: value}), {f"optional_fields.{field}": "ignored"}).notes == [f"ignored={field}"] * told


@pytest.mark.parametrize(("fact", "notes"), [("kept", []), ("unknown", []), ("ignored", ["ignored=stop"])])
def test_stop_sequences(fact: str, notes: list[str]) -> None:
    assert outcome(ask(stop=["X"]), {"stop": fact}) == Outcome({}, notes)


def test_a_rejected_stop_is_the_servers_to_refuse() -> None:
    assert outcome(ask(stop="X"), {"stop": "rejected"}) == SENT


def test_top_logprobs_go_with_logprobs() -> None:
    facts = {"optional_fields.logprobs": "rejected", "optional_fields.top_logprobs": "kept"}
    expected = Outcome({"logprobs": GONE, "top_logprobs": GONE}, ["drop=logprobs", "drop=top_logprobs"])
    assert outcome(ask(logprobs=True, top_logprobs=2), facts) == expected
    assert outcome(ask(logprobs=True), facts) == Outcome({"logprobs": GONE}, ["drop=logprobs"])
    assert outcome(ask(top_logprobs=2), facts) == SENT


@pytest.mark.parametrize("field", sorted(DEMANDS - {"messages", "model", "n", "stream", "functions", "function_call"}))
def test_what_the_answer_depends_on_stays(field: str) -> None:
    facts = {"unknown_fields": "rejected", f"optional_fields.{field}": "rejected"}
    assert not is_foreign(field)
    assert outcome(ask(**{field: 5}), facts).changes in ({}, {"max_tokens": 5, "max_completion_tokens": GONE})


def test_the_protocol_holds_what_the_profiles_call_optional() -> None:
    fields = {
        "stream_options",
        "reasoning_effort",
        "store",
        "metadata",
        "user",
        "seed",
        "logprobs",
        "temperature",
        "top_p",
    }
    assert not any(map(is_foreign, fields))
    assert all(map(is_foreign, ("top_k", "chat_template_kwargs", "context_management")))
    assert PLAIN.request.optional_fields == {}
