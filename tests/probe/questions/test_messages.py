from __future__ import annotations

import pytest

from svir_proxy.probe.questions.messages import ABOUT_MESSAGES
from svir_proxy.probe.questions.opening import OPENING
from tests.probe.simulated import Simulated
from tests.probe.support import hold

ROLES = ("developer_role", "late_system", "content_parts")


@pytest.mark.parametrize("fact", ROLES)
@pytest.mark.parametrize("value", ["kept", "ignored", "rejected"])
def test_without_counts_obedience_tells(fact: str, value: str) -> None:
    held = hold(Simulated({fact: value}, counts=False), [*OPENING, *ABOUT_MESSAGES])
    assert held[fact].value == value


@pytest.mark.parametrize("fact", ROLES)
def test_without_counts_an_echo_tells_nothing(fact: str) -> None:
    held = hold(Simulated({fact: "ignored"}, counts=False, echoes=True), [*OPENING, *ABOUT_MESSAGES])
    assert held[fact].value == "unknown"


def test_a_model_that_obeys_nobody_tells_nothing() -> None:
    class Stubborn(Simulated):
        def _say(self, *_: object) -> tuple[str, list[str]]:
            return "Hello!", []

    held = hold(Stubborn({"developer_role": "ignored"}, counts=False), [*OPENING, *ABOUT_MESSAGES])
    assert held["developer_role"].value == "unknown"
    assert "not obeyed either" in held["developer_role"].evidence
