"""Every fact of the schema, and every value that it can have, is told in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel

from docs.generate.facts import AREAS, FACTS, OPTIONAL_FIELD, SENT
from svir_proxy.profiles import builtin_names, load_profile
from svir_proxy.profiles.schema import Fact, Profile

ELSEWHERE: Final = {
    "name", "extends", "server", "provider", "notes", "observed", "evidence", "discovery.ports", "discovery.signatures", "errors",
}  # fmt: skip
"""What is no fact about requests and answers, or has a place of its own on the page."""


def _leaves(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted path and the type of each field that holds no other fields."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _leaves(kind, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", kind


LEAVES: Final = dict(_leaves(Profile))


def test_each_fact_of_the_schema_is_told_and_no_other() -> None:
    assert set(FACTS) == set(LEAVES) - ELSEWHERE
    assert set(LEAVES) >= ELSEWHERE


def _values(kind: Any) -> list[Any] | None:
    """All values of a type that has few; None for others."""
    if kind is bool:
        return [True, False]
    return list(get_args(kind)) if get_origin(kind) is Literal else None


@pytest.mark.parametrize("path", FACTS)
def test_each_value_is_told(path: str) -> None:
    fact, values = FACTS[path], _values(LEAVES[path])
    assert fact.area in AREAS
    if values is None:
        assert callable(fact.told)
        values = [load_profile(name).fact(path) for name in builtin_names()]
    else:
        assert not callable(fact.told)
        assert set(fact.told) == set(values)
    for value in values:
        told = fact.of(value)
        for text in (told.server, told.proxy):
            assert text
            assert not text.endswith(".")


@pytest.mark.parametrize("path", [path for path, kind in LEAVES.items() if kind == Fact])
def test_what_is_kept_is_sent_and_what_is_refused_is_not(path: str) -> None:
    fact = FACTS[path]
    assert fact.of("kept").proxy == SENT
    assert fact.of("rejected").proxy not in ("", SENT)


def test_a_field_is_told_by_its_name() -> None:
    assert {value for value in get_args(Fact) if OPTIONAL_FIELD.of(value).proxy} == set(get_args(Fact))
