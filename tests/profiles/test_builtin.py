"""The profiles that ship: what they state beyond what they extend has evidence, and can be acted on."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Final

import pytest
import yaml

from svir_proxy.profiles import Profile, builtin_names, load_profile

FACTS: Final = ("endpoint", "request", "response", "models")


def _stated(part: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Each fact that a profile's file states, by its dotted path."""
    for key, value in part.items():
        path = f"{prefix}.{key}"
        if isinstance(value, dict) and path not in ("request.always_send", "request.reasoning_efforts"):
            yield from _stated(value, path)
        else:
            yield path, value


def _file(name: str) -> dict[str, Any]:
    document = yaml.safe_load(files("svir_proxy.profiles").joinpath(f"{name}.yaml").read_text("utf-8"))
    assert isinstance(document, dict)
    return document


def _known(profile: Profile, path: str) -> Any:
    try:
        return profile.fact(path)
    except KeyError:
        return "unknown"


@pytest.mark.parametrize("name", builtin_names())
def test_what_a_profile_states_has_evidence(name: str) -> None:
    document = _file(name)
    profile = load_profile(name)
    below = (
        load_profile(document["extends"])
        if "extends" in document
        else Profile.model_validate({"name": "defaults", "server": "", "observed": [{"source": "docs"}]})
    )
    missing = [
        path
        for section in FACTS
        for path, value in _stated(document.get(section, {}), section)
        if value != "unknown"
        and value != _known(below, path)
        and not any(path == seen or path.startswith(f"{seen}.") for seen in profile.evidence)
    ]
    assert not missing


@pytest.mark.parametrize("name", builtin_names())
def test_no_profile_repeats_what_it_extends(name: str) -> None:
    document = _file(name)
    if "extends" not in document:
        return
    below = load_profile(document["extends"])
    repeated = [
        path
        for section in FACTS
        for path, value in _stated(document.get(section, {}), section)
        # An unknown is worth stating: it says that somebody looked, and on what it depends.
        if value == _known(below, path) != "unknown"
    ]
    evidence = load_profile(name).evidence
    assert [path for path in repeated if path not in evidence] == []


@pytest.mark.parametrize("name", builtin_names())
def test_a_profile_is_called_as_its_file_and_tells_what_to_know(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert profile.notes.endswith(".")
    assert profile.server


@pytest.mark.parametrize("name", builtin_names())
def test_notes_name_facts_that_exist(name: str) -> None:
    profile = load_profile(name)
    for word in profile.notes.split():
        path = word.strip(".,:;()")
        if path.startswith("overrides."):
            profile.fact(path.removeprefix("overrides."))
