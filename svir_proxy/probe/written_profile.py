"""What was learned as a profile: a YAML file that `check` accepts and `serve` uses.

It extends the profile of the server's kind and says what differs from that. The evidence is there for all that was
learned: a fact that was confirmed is worth knowing, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import yaml

from svir_proxy.probe.difference import said_by
from svir_proxy.probe.finding import Finding
from svir_proxy.probe.questions.errors import RULES
from svir_proxy.profiles import Profile

_WIDTH: Final = 110
_NOTES: Final = (
    "Learned by svir-proxy probe; what is not said here did not show, and is as in the profile that this one extends."
)


def profile_text(
    name: str, extends: str, base: Profile, findings: Iterable[Finding], *, server: str, source: str
) -> str:
    """The file.

    *name* is the profile's, *extends* how it names *base* (a built-in name, or a path from the file's folder),
    *server* the server's name for people, *source* what was asked, and when.
    """
    known = [finding for finding in findings if finding.known and finding.is_fact]
    document: dict[str, Any] = {
        "name": name,
        "extends": extends,
        "server": server,
        "notes": _NOTES,
        "observed": [{"source": "probe", "ref": source}],
    }
    for finding in known:
        if finding.value != said_by(base, finding.fact):
            _put(document, finding.fact.split("."), finding.value)
    rules = [rule for finding in findings if finding.fact == RULES for rule in finding.value]
    if rules:
        document["errors"] = rules
    document["evidence"] = {finding.fact: finding.evidence for finding in known}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=_WIDTH)


def _put(document: dict[str, Any], steps: list[str], value: Any) -> None:
    at = document
    for step in steps[:-1]:
        at = at.setdefault(step, {})
    at[steps[-1]] = value
