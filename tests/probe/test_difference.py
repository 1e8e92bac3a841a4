from __future__ import annotations

from typing import Any

import pytest

from svir_proxy.probe.difference import differences
from svir_proxy.probe.finding import Finding
from svir_proxy.profiles import load_profile


@pytest.mark.parametrize(
    ("profile", "fact", "found", "verdict"),
    [
        ("llama-cpp", "request.tool_choice.named", "ignored", "agrees"),
        ("llama-cpp", "request.tool_choice.named", "kept", "disagrees"),
        ("llama-cpp", "request.images", "rejected", "new"),
        ("llama-cpp", "request.optional_fields.of_tomorrow", "rejected", "new"),
        # all that an answer shows of these is that the request is taken
        ("llama-cpp", "request.tool_strict", "kept", "agrees"),
        ("llama-cpp", "request.tool_strict", "rejected", "disagrees"),
        ("llama-cpp", "request.unknown_fields", "ignored", "agrees"),
        ("ollama", "request.reasoning_efforts", {"minimal": "low", "xhigh": "high"}, "agrees"),
        ("ollama", "request.reasoning_efforts", {"xhigh": "high"}, "disagrees"),
    ],
)
def test_a_fact_against_a_profile(profile: str, fact: str, found: Any, verdict: str) -> None:
    (difference,) = differences([Finding(fact, found, "seen")], load_profile(profile))
    assert (difference.verdict, difference.found, difference.evidence) == (verdict, found, "seen")


def test_what_is_unknown_or_no_fact_disagrees_with_nothing() -> None:
    findings = [Finding("request.tools", "unknown", ""), Finding("overflow", "told", "")]
    assert differences(findings, load_profile("llama-cpp")) == []
