"""What was learned against what a profile says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from svir_proxy.probe.finding import UNKNOWN, Finding
from svir_proxy.profiles import Profile

_NO_EFFECT_TO_SEE: Final = frozenset(
    {
        "request.empty_tools",
        "request.tool_strict",
        "request.empty_parameters",
        "request.null_content",
        "request.missing_content",
        "request.unknown_fields",
    }
)
"""Facts of which an answer shows only whether they are taken: kept and ignored are the same there."""
_TAKEN: Final = ("kept", "ignored")


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that was learned, and what the profile says of it.

    ``agrees``; ``new``: the profile does not know it; ``disagrees``.
    """

    fact: str
    said: Any
    found: Any
    evidence: str
    verdict: Literal["agrees", "new", "disagrees"]


def differences(findings: Iterable[Finding], profile: Profile) -> list[Difference]:
    """Each fact in *findings* that is known, against *profile*."""
    return [_compare(finding, profile) for finding in findings if finding.is_fact and finding.known]


def said_by(profile: Profile, fact: str) -> Any:
    """What *profile* says of *fact*; unknown where it has no such field."""
    try:
        return profile.fact(fact)
    except KeyError:
        return UNKNOWN


def _compare(finding: Finding, profile: Profile) -> Difference:
    said, found = said_by(profile, finding.fact), finding.value
    same = said == found or (finding.fact in _NO_EFFECT_TO_SEE and said in _TAKEN and found in _TAKEN)
    verdict: Literal["agrees", "new", "disagrees"] = "agrees" if same else "new" if said == UNKNOWN else "disagrees"
    return Difference(finding.fact, said, found, finding.evidence, verdict)
