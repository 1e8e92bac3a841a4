"""Which of the operator's rules an answer is under, by who asks and for which model."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

from svir_proxy.errors import ProxyError
from svir_proxy.patterns import Pattern
from svir_proxy.response.answer_rules import AnswerRule
from svir_proxy.server.catalog import Route
from svir_proxy.server.model_names import is_like
from svir_proxy.settings import RuleSettings

_WITHOUT_TEXT: Final = re.compile(r"/(?:embeddings|rerank|moderations|audio/speech|images/.+)")
"""Endpoints whose answers hold numbers, sounds and pictures: nothing that a rule could read."""


class _Rule(NamedTuple):
    rule: AnswerRule
    models: tuple[str, ...]
    keys: frozenset[str]

    def is_for(self, key: str | None, names: Collection[str]) -> bool:
        """Whether it is for *key* and for a model that goes by *names*; none are known: it may be any model."""
        if self.keys and key not in self.keys:
            return False
        return not self.models or not names or any(is_like(name, model) for name in names for model in self.models)


class ContentRules:
    """The rules of ``rules.answers``. *names_of* gives every name of a model that is asked for, along a route."""

    def __init__(
        self, settings: RuleSettings, names_of: Callable[[str, Route], Iterable[str]] = lambda _, route: (route.model,)
    ) -> None:
        self._names_of = names_of
        self._rules = [
            _Rule(
                AnswerRule(rule.name, Pattern(rule.pattern), rule.replacement if rule.action == "redact" else None),
                tuple(rule.models),
                frozenset(rule.keys),
            )
            for rule in settings.answers
        ]

    def of(
        self, key: str | None, model: str, routes: Sequence[Route], *, others: bool = False
    ) -> tuple[AnswerRule, ...]:
        """The rules for what the holder of *key* gets who asks for *model*, which goes along one of *routes*.

        A rule for some models holds by any of their names. Where nobody knows beforehand which
        model answers, because no list has the name, or the request names *others* too, it holds as well.
        """
        is_known = bool(model) and not others and all(route.listed for route in routes)
        names = {model, *(name for route in routes for name in self._names_of(model, route))} if is_known else ()
        return tuple(rule.rule for rule in self._rules if rule.is_for(key, names))

    def tells_models_apart(self, path: str) -> bool:
        """Whether the answers of *path* are text, and those of some models under rules that others are not under."""
        return not _WITHOUT_TEXT.fullmatch(path) and any(rule.models for rule in self._rules)

    def check_passed(self, path: str, key: str | None, model: str, routes: Sequence[Route]) -> None:
        """Raise ProxyError where the answer of *path* would pass as it is, although a rule is for its text."""
        if not _WITHOUT_TEXT.fullmatch(path) and (rules := self.of(key, model, routes)):
            raise ProxyError(
                "endpoint_not_allowed",
                f"Answers of the model {model!r} are under the operator's rule {rules[0].name!r}, to which POST"
                f" /v1{path} is not held. Use POST /v1/chat/completions.",
            )
