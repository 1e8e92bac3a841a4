"""The operator's rules, as they are written down."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from svir_proxy.settings import AnswerRule, RuleSettings, Settings, SettingsError
from svir_proxy.settings.load import load_settings

RULE: dict[str, Any] = {"name": "r", "pattern": "(?i)secret", "action": "redact"}


def write(folder: Path, text: str) -> Path:
    path = folder / "svir.yaml"
    path.write_text(text, "utf-8")
    return path


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(write(tmp_path, text))
    return caught.value.lines()


def test_what_is_not_said() -> None:
    rule = AnswerRule.model_validate(RULE)
    assert (rule.replacement, rule.models, rule.keys) == ("[redacted]", [], [])
    assert RuleSettings() == Settings().rules == RuleSettings(answers=[], deprecated={})


def test_everything_that_is_wrong_is_told_with_its_place_and_without_its_words(tmp_path: Path) -> None:
    assert problems(
        tmp_path,
        """
rules:
  answers:
    - {name: a b, pattern: hush, action: drop}
    - {name: b, pattern: "hush(", action: block}
    - {name: c, pattern: "(?=hush)", action: block}
    - {name: d, pattern: "x*", action: block}
    - {name: e, pattern: hush, action: block, replacement: y}
    - {name: f, pattern: hush, action: redact, replacement: hushed}
    - {name: g, pattern: hush, action: redact, models: ["a*b*", ""]}
  deprecated: {"a**": b, old: "né\\nw"}
""",
    ) == [
        "rules.answers[0].name: must be of letters, digits, dots, dashes and underscores",
        "rules.answers[0].action: must be 'block' or 'redact'",
        "rules.answers[1].pattern: is no pattern of RE2, which has no look-around and no \\1: missing )",
        "rules.answers[2].pattern: is no pattern of RE2, which has no look-around and no \\1: invalid perl operator",
        "rules.answers[3].pattern: matches the empty text, and so every answer; make it match one character at least",
        "rules.answers[4].replacement: has no effect with action: block; leave it out",
        "rules.answers[5].replacement: matches the pattern itself; say it in other words",
        "rules.answers[6].models[0]: must be a model's name, with one * at most for any text",
        "rules.answers[6].models[1]: must be a model's name, with one * at most for any text",
        "rules.deprecated.old: must be a model's name in ASCII, as headers carry it; leave it empty where there is none",
    ]


def test_deprecated_models_are_names(tmp_path: Path) -> None:
    assert problems(tmp_path, 'rules: {deprecated: {"a**": b, "*": c}}') == [
        "rules.deprecated.a**: must be a model's name, with one * at most for any text"
    ]


def test_names_are_unique_and_keys_are_there(tmp_path: Path) -> None:
    twice = "rules: {answers: [{name: r, pattern: a, action: block}, {name: r, pattern: b, action: block}]}"
    assert problems(tmp_path, twice) == ["rules.answers[1].name: is the name of answers[0] too; give it another"]
    for_whom = "rules: {answers: [{name: r, pattern: a, action: block, keys: [kid, kids]}]}"
    assert problems(tmp_path, for_whom + "\nauth: {keys: [{name: kids, key: sk-1}]}") == [
        "rules.answers[0].keys[0]: is unknown; did you mean kids?"
    ]
    assert problems(tmp_path, for_whom)[0].startswith("rules.answers[0].keys[0]: is unknown; known are none")


def test_without_the_extra_the_configuration_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    assert problems(tmp_path, "rules: {answers: [{name: r, pattern: a, action: block}]}") == [
        "rules.answers[0].pattern: needs google-re2, which is not installed: pip install 'svir-proxy[rules]'"
    ]
    assert load_settings(write(tmp_path, "rules: {deprecated: {old: new, gone: }}")).rules.deprecated == {
        "old": "new",
        "gone": None,
    }
