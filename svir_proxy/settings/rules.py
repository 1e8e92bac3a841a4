"""What the operator says about answers and models, whatever a server or a client thinks of it."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from svir_proxy.patterns import Pattern, PatternError
from svir_proxy.settings.fields import Name, Section
from svir_proxy.settings.problems import Problem, join, several

_TELLABLE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_NO_MODEL: Final = "must be a model's name, with one * at most for any text"


def _is_model(value: str) -> bool:
    return bool(value) and value.count("*") <= 1


def _model(value: str) -> str:
    if not _is_model(value):
        raise ValueError(_NO_MODEL)
    return value


def _successor(value: str | None) -> str | None:
    if value is not None and not _TELLABLE.fullmatch(value):
        raise ValueError("must be a model's name in ASCII, as headers carry it; leave it empty where there is none")
    return value


def _pattern(value: str) -> str:
    try:
        found = Pattern(value)
    except PatternError as exc:
        raise ValueError(str(exc)) from None
    if found.found_in(""):
        raise ValueError("matches the empty text, and so every answer; make it match one character at least")
    return value


ModelPattern = Annotated[str, AfterValidator(_model)]
"""A model's name; one ``*`` in it stands for any text."""


class AnswerRule(Section):
    """One thing that answers must not say."""

    name: Name
    """Unique; names the rule in x-svir-rewrites and in the log."""
    pattern: Annotated[str, AfterValidator(_pattern)]
    """What it looks for: a regular expression in RE2's syntax; (?i) in front ignores case. Needs the extra rules."""
    action: Literal["block", "redact"]
    """block: the answer ends with finish_reason content_filter and has no text. redact: each match is replaced."""
    replacement: str = "[redacted]"
    """What takes the place of a match, word for word."""
    models: list[ModelPattern] = Field(default=[])
    """Models it is for, as clients name them or as their servers do; a * stands for any text. Empty: all."""
    keys: list[str] = Field(default=[])
    """Names of the keys (auth.keys) it is for. Empty: all, and clients without one."""

    @model_validator(mode="after")
    def _replaces_for_good(self) -> Self:
        if self.action == "block":
            if "replacement" in self.model_fields_set:
                raise several([("replacement", "has no effect with action: block; leave it out")])
        elif Pattern(self.pattern).found_in(self.replacement):
            raise several([("replacement", "matches the pattern itself; say it in other words")])
        return self


class RuleSettings(Section):
    """What the operator says about answers and models."""

    answers: list[AnswerRule] = Field(default=[])
    """What answers must not say. An answer that a rule is for is held until it is whole."""
    deprecated: dict[str, Annotated[str | None, AfterValidator(_successor)]] = Field(default={})
    """Models that are about to go, as clients name them, and the model to use instead, or nothing. Answers have the
    header X-AI-Model-Deprecated."""

    @field_validator("deprecated")
    @classmethod
    def _names_models(cls, deprecated: dict[str, str | None]) -> dict[str, str | None]:
        if problems := [(model, _NO_MODEL) for model in deprecated if not _is_model(model)]:
            raise several(problems)
        return deprecated

    @field_validator("answers")
    @classmethod
    def _each_has_a_name_of_its_own(cls, answers: list[AnswerRule]) -> list[AnswerRule]:
        first: dict[str, int] = {}
        problems: list[Problem] = []
        for index, rule in enumerate(answers):
            if first.setdefault(rule.name, index) != index:
                path = join(f"[{index}]", "name")
                problems.append((path, f"is the name of answers[{first[rule.name]}] too; give it another"))
        if problems:
            raise several(problems)
        return answers
