"""The shape of a profile."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from svir_proxy.profiles.schema import Fact, Profile, RequestFacts

HEAD = {"name": "mine", "server": "Mine", "observed": [{"source": "run"}]}


def _profile(**data: Any) -> Profile:
    return Profile.model_validate(HEAD | data)


def _leaves(model: BaseModel, path: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        leaves |= _leaves(value, f"{path}{name}.") if isinstance(value, BaseModel) else {f"{path}{name}": value}
    return leaves


def test_each_fact_is_found_by_its_path() -> None:
    profile = _profile(request={"optional_fields": {"seed": "ignored"}})
    for path, value in _leaves(profile).items():
        assert profile.fact(path) is value
    assert profile.fact("request.optional_fields.seed") == "ignored"
    assert profile.fact("request") is profile.request


@pytest.mark.parametrize(
    "path",
    ["", "x", "request.x", "request.images.x", "request.optional_fields.x", "observed.0", "model_fields", "fact"],
)
def test_a_path_to_nowhere(path: str) -> None:
    with pytest.raises(KeyError):
        _profile().fact(path)


@pytest.mark.parametrize("value", get_args(Fact))
def test_any_fact_takes_any_value_of_the_vocabulary(value: str) -> None:
    facts = [path for path, default in _leaves(_profile()).items() if default in get_args(Fact)]
    assert len(facts) > 25
    for path in facts:
        data: dict[str, Any] = {path.rpartition(".")[2]: value}
        for name in reversed(path.split(".")[:-1]):
            data = {name: data}
        assert _profile(**data).fact(path) == value


@pytest.mark.parametrize(
    "data",
    [
        {"endpoint": {"auth": "basic"}},
        {"endpoint": {"query": {"a": 1}}},
        {"request": {"stream": "sometimes"}},
        {"request": {"call_ids": "short"}},
        {"request": {"max_tokens_field": "n_predict"}},
        {"response": {"reasoning": "xml"}},
        {"models": {"hidden": ["("]}},
        {"discovery": {"signatures": [{"path": "/", "headers": {"server": "["}}]}},
        {"observed": [{"source": "hearsay"}]},
        {"extra": 1},
    ],
)
def test_what_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        _profile(**data)


def test_a_profile_does_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        _profile().request.images = "kept"


def test_what_follows_from_facts_is_no_fact_and_does_not_follow_from_others() -> None:
    facts = RequestFacts()
    facts.plans[1] = (print,)
    assert facts == RequestFacts()
    assert facts.model_dump() == RequestFacts().model_dump()
    assert facts.plans == {1: (print,)}
    for deep in (False, True):
        assert facts.model_copy(update={"tools": "rejected"}, deep=deep).plans == {}
