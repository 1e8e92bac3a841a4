"""Whatever a server keeps, ignores and rejects: the probe says so, or that it does not know; never anything else."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.probe.dialogue import NO_EFFECT
from svir_proxy.probe.questions import QUESTIONS
from tests.probe.simulated import FACTS, Simulated
from tests.probe.support import Held, hold

_INVISIBLE: Final = {
    "request.tool_strict",
    "request.empty_parameters",
    "request.empty_tools",
    "request.null_content",
    "request.missing_content",
    "request.unknown_fields",
    "request.call_ids",
}
"""Facts of which an answer shows only whether the request is taken."""
_VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "request.stream": ("kept", "never"),
    "request.model": ("any", "listed"),
    "request.call_ids": ("any", "alphanumeric_9"),
    "request.tool_choice.auto": ("kept", "rejected"),
    "request.tool_message_name": ("any", "required", "rejected"),
    "request.reasoning_history": ("reasoning_content", "reasoning", "none"),
    "response.content": ("incremental", "cumulative"),
}
_ELSEWHERE: Final = {"request.max_tokens_field", "response.reasoning", "request.reasoning_efforts"}
"""Facts whose truth is told in other words; they have tests of their own."""
_WORDS: Final = ("kept", "ignored", "rejected")

_truths: Final = st.fixed_dictionaries(
    {}, optional={fact: st.sampled_from(_VALUES.get(fact, _WORDS)) for fact in sorted(FACTS - _ELSEWHERE)}
)


def simulated(truth: dict[str, Any], **more: Any) -> Simulated:
    facts = {"model": "any", "call_ids": "any", "tool_message_name": "any", "reasoning_history": "reasoning_content"}
    facts |= {fact.removeprefix("request.").removeprefix("response."): value for fact, value in truth.items()}
    return Simulated(facts, **more)


def wrong(held: Held, server: Simulated) -> list[str]:
    """What was said that is not so."""
    untrue = []
    for finding in held.interview.findings:
        if not finding.known or not finding.is_fact or finding.fact in _ELSEWHERE:
            continue
        true = server.fact(finding.fact.removeprefix("request.").removeprefix("response."))
        if finding.fact in {"request.stream", "response.content"} and true == "kept":
            continue
        same = true == finding.value or (finding.fact in _INVISIBLE and "rejected" not in (true, finding.value))
        if true != "ignored" and finding.value == "ignored" and ".tool_choice." in finding.fact:
            same = server.fact("tools") == "ignored"  # a choice among tools that are not there has no effect either
        if not same:
            untrue.append(f"{finding.fact} is {true}, found {finding.value}: {finding.evidence}")
    return untrue


@given(
    truth=_truths,
    counts=st.booleans(),
    thinks=st.booleans(),
    echoes=st.booleans(),
    preopened=st.booleans(),
    calls=st.integers(0, 3),
    least=st.sampled_from((1, 1, 16, 40)),
)
def test_nothing_is_said_that_is_not_so(
    truth: dict[str, Any], *, counts: bool, thinks: bool, echoes: bool, preopened: bool, calls: int, least: int
) -> None:
    server = simulated(
        truth, counts=counts, thinks=thinks, echoes=echoes, preopened=preopened, calls=calls, least=least
    )
    assert wrong(hold(server), server) == []


_UNSEEN: Final = {
    "request.tool_strict", "request.empty_parameters", "request.empty_tools", "request.null_content",
    "request.missing_content", "request.unknown_fields", "request.empty_arguments", "request.refusal_parts",
    "request.optional_fields.seed", "request.remote_images",
}  # fmt: skip


def _ask_about(fact: str, server: Simulated) -> Held:
    """Only the questions that are needed for *fact*: the first ones, on which others lean, and its own."""
    leaned_on = {"answer", "counts", "request.tools"}
    return hold(server, [each for each in QUESTIONS if {*each.facts} & {*leaned_on, fact}])


@pytest.mark.parametrize("value", _WORDS)
@pytest.mark.parametrize("fact", sorted(FACTS - _ELSEWHERE - set(_VALUES)))
def test_a_fact_is_found(fact: str, value: str) -> None:
    held = _ask_about(fact, simulated({fact: value}, thinks=True))
    found = held[fact].value
    if value == "rejected" or not (held[fact].evidence == NO_EFFECT or fact in _UNSEEN):
        assert found == value, held[fact].evidence
    else:
        assert found in ("unknown", "kept", "ignored")


@pytest.mark.parametrize(("fact", "value"), [(fact, value) for fact, values in _VALUES.items() for value in values])
def test_a_fact_that_is_no_word_is_found(fact: str, value: str) -> None:
    found = _ask_about(fact, simulated({fact: value}))[fact].value
    expected = "always" if fact == "request.stream" and value == "kept" else "unknown" if value == "none" else value
    assert found == expected
