from __future__ import annotations

import pytest

from svir_proxy.probe.finding import Finding


@pytest.mark.parametrize(
    ("fact", "value", "is_fact", "known"),
    [
        ("request.tools", "kept", True, True),
        ("request.tools", "unknown", True, False),
        ("request.reasoning_efforts", {"xhigh": "high"}, True, True),
        ("overflow", "told", False, True),
    ],
)
def test_what_a_finding_is(fact: str, value: object, *, is_fact: bool, known: bool) -> None:
    finding = Finding(fact, value, "")
    assert (finding.is_fact, finding.known) == (is_fact, known)
