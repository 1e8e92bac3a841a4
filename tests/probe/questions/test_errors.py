from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from svir_proxy.probe.answer import Answer
from svir_proxy.probe.questions.errors import ABOUT_ERRORS, NO_SUCH_MODEL, RULES
from svir_proxy.probe.questions.opening import OPENING
from svir_proxy.profiles import Profile, load_profile
from tests.probe.simulated import Simulated, json_answer
from tests.probe.support import Held, hold


class Worded(Simulated):
    """Words its errors in its own way: of a prompt that is too long, of a model that it does not have."""

    def __init__(self, *, long: str = "", model: str = "", status: int = 400) -> None:
        super().__init__({"model": "any"})
        self.long, self.model, self.status = long, model, status

    def _answer(self, body: Mapping[str, Any]) -> Answer:
        if self.long and len(str(body)) > 50_000:
            return json_answer({"error": {"message": self.long}}, self.status)
        if self.model and body["model"] != "m":
            return json_answer({"error": {"message": self.model.format(body["model"])}}, self.status)
        return super()._answer(body)


def _asked(server: Simulated, **known: Any) -> Held:
    return hold(server, [*OPENING, *ABOUT_ERRORS], **known)


def _rules(held: Held) -> list[dict[str, Any]]:
    return [rule for finding in held.interview.findings if finding.fact == RULES for rule in finding.value]


@pytest.mark.parametrize(
    ("words", "status", "found", "rules"),
    [
        ("This model's maximum context length is 4096 tokens.", 400, "told", 0),
        ("You sent 20013 tokens and I read 4096 at most, too many for me.", 400, "told", 1),
        ("No.", 400, "unknown", 0),
        ("", 400, "unknown", 0),
    ],
)
def test_a_prompt_that_is_too_long(words: str, status: int, found: str, rules: int) -> None:
    held = _asked(Worded(long=words, status=status))
    assert held["overflow"].value == found
    assert len(_rules(held)) == rules


def test_a_rule_holds_for_other_numbers() -> None:
    (rule,) = _rules(_asked(Worded(long="You sent 20013 tokens (limit: 4096).")))
    assert rule["then"] == "context_length_exceeded"
    assert re.search(rule["when"]["message"], "You sent 7 tokens (limit: 8192).")
    assert Profile.model_validate({"name": "x", "server": "X", "observed": [{"source": "probe"}], "errors": [rule]})


@pytest.mark.parametrize(
    ("known", "longest"), [({"context": 8192}, 9830), ({"context": 131072}, 0), ({"local": False}, 0), ({}, 20000)]
)
def test_how_much_is_sent(known: dict[str, Any], longest: int) -> None:
    server = Simulated({"model": "any"})
    _asked(server, **known)
    assert max(str(body["messages"]).count("harbour ") for body in server.asked) == (longest or 2)


@pytest.mark.parametrize(
    ("words", "found", "rules"),
    [
        ("", "any", 0),
        ("The model {} does not exist", "listed", 0),
        ("Failed to load model: {}", "loads", 1),
        ("I never heard of {}!", "listed", 1),
        ("No.", "listed", 0),
    ],
)
def test_a_model_that_is_none(words: str, found: str, rules: int) -> None:
    held = _asked(Worded(model=words))
    assert held["request.model"].value == found
    assert len(_rules(held)) == rules
    for rule in _rules(held):
        assert rule["then"] == "model_not_found"
        assert re.search(rule["when"]["message"], words.format("another"))


def test_a_server_that_loads_what_is_named_is_not_asked() -> None:
    server = Simulated()
    assert _asked(server, base=load_profile("mlx-lm"))["request.model"].value == "unknown"
    assert not any(body["model"] == NO_SUCH_MODEL for body in server.asked)
