"""What is written is a profile: it loads, says what differs, and has the evidence for all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from svir_proxy.probe.finding import Finding
from svir_proxy.probe.questions.errors import RULES
from svir_proxy.probe.written_profile import profile_text
from svir_proxy.profiles import Profile, load_profile

RULE: dict[str, Any] = {"when": {"status": 400, "message": "too big"}, "then": "context_length_exceeded"}


def _written(tmp_path: Path, base: str, *findings: Finding) -> tuple[dict[str, Any], Profile]:
    path = tmp_path / "mine.yaml"
    path.write_text(
        profile_text("mine", base, load_profile(base), findings, server="Mine", source="today"), encoding="utf-8"
    )
    return yaml.safe_load(path.read_text("utf-8")), load_profile(str(path))


def test_only_what_differs_is_said(tmp_path: Path) -> None:
    document, profile = _written(
        tmp_path,
        "llama-cpp",
        Finding("request.tool_choice.named", "kept", "it called"),
        Finding("request.tool_choice.none", "ignored", "it called all the same"),
        Finding("request.images", "unknown", "nobody knows"),
        Finding("overflow", "told", "400 too long"),
    )
    assert document["request"] == {"tool_choice": {"named": "kept"}}
    assert document["evidence"] == {
        "request.tool_choice.named": "it called",
        "request.tool_choice.none": "it called all the same",
    }
    assert (profile.extends, profile.request.tool_choice.required) == ("llama-cpp", "kept")


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("request.optional_fields.temperature", "rejected"),
        ("request.reasoning_efforts", {"minimal": "low", "none": None}),
        ("request.max_tokens_field", "max_completion_tokens"),
        ("request.response_format.schema_binds_reasoning", True),
        ("response.reasoning", "think_tags_preopened"),
        ("endpoint.chat_path", "/chat/completions"),
    ],
)
def test_every_kind_of_value_is_read_again(tmp_path: Path, fact: str, value: Any) -> None:
    _, profile = _written(tmp_path, "generic", Finding(fact, value, 'seen: "quoted", in ünïcode'))
    assert profile.fact(fact) == value
    assert profile.evidence[fact] == 'seen: "quoted", in ünïcode'


def test_rules_come_before_those_of_the_profile_it_extends(tmp_path: Path) -> None:
    _, profile = _written(tmp_path, "llama-cpp", Finding(RULES, [RULE], "seen"))
    assert profile.errors[0].then == "context_length_exceeded"
    assert len(profile.errors) == 1 + len(load_profile("llama-cpp").errors)
