from __future__ import annotations

import pytest

from svir_proxy.probe.questions.history import ABOUT_HISTORY, conversation, with_
from svir_proxy.probe.questions.opening import OPENING
from svir_proxy.profiles import load_profile
from tests.probe.simulated import Simulated
from tests.probe.support import hold


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ({"call_ids": "alphanumeric_9"}, {"call_ids": "alphanumeric_9", "null_content": "kept"}),
        ({"tool_message_name": "required"}, {"tool_message_name": "required", "null_content": "kept"}),
        ({"tools": "rejected"}, {"call_ids": "unknown", "null_content": "unknown", "reasoning_history": "unknown"}),
        ({"reasoning_history": "reasoning"}, {"reasoning_history": "reasoning"}),
    ],
)
def test_the_form_of_earlier_calls(facts: dict[str, str], found: dict[str, str]) -> None:
    held = hold(Simulated(facts), [*OPENING, *ABOUT_HISTORY])
    assert {fact: held[fact].value for fact in found} == found


def test_of_two_keys_that_reach_the_template_the_usual_one_is_told() -> None:
    class Both(Simulated):
        def _call(self, message):  # type: ignore[no-untyped-def]
            yield message.get("reasoning_content") or message.get("reasoning") or "call"

    held = hold(Both(), [*OPENING, *ABOUT_HISTORY], base=load_profile("mlx-lm"))
    assert held["reasoning_history"].value == "reasoning"
    assert hold(Both(), [*OPENING, *ABOUT_HISTORY])["reasoning_history"].value == "reasoning_content"


def test_a_change_leaves_the_conversation_as_it_was() -> None:
    base = conversation()
    assert with_(base, 1, content=None)[1]["content"] is None
    assert base == conversation()
