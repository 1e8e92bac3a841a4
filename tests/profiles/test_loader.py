"""Profiles from files: what they extend, what a backend overrides, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from svir_proxy.profiles.loader import ProfileError, builtin_names, load_profile, merge, profile_files

HEAD = {"name": "mine", "server": "Mine", "observed": [{"source": "run"}]}


def _write(folder: Path, name: str, **data: Any) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({**HEAD, **data}), "utf-8")
    return name


def _problems(name: str, folder: Path, overrides: dict[str, Any] | None = None) -> list[str]:
    with pytest.raises(ProfileError) as caught:
        load_profile(name, overrides, folder)
    assert str(caught.value).count(caught.value.source) >= 1
    return [f"{path}: {text}" if path else text for path, text in caught.value.problems]


@pytest.mark.parametrize("name", builtin_names())
def test_a_profile_that_ships(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert profile.observed
    for path in profile.evidence:
        profile.fact(path)


def test_extending_merges_key_by_key(tmp_path: Path) -> None:
    _write(
        tmp_path,
        "base.yaml",
        notes="of the base",
        request={"images": "rejected", "tool_choice": {"none": "ignored", "named": "ignored"}},
        errors=[{"when": {"code": "b"}, "then": "overloaded"}],
        models={"hidden": ["^b"]},
        discovery={"ports": [1]},
        evidence={"request.images": "404"},
    )
    _write(
        tmp_path,
        "mine.yaml",
        extends="base.yaml",
        request={"tool_choice": {"named": "rejected"}, "optional_fields": {"a.b": "ignored"}},
        errors=[{"when": {"code": "m"}, "then": "upstream_failed"}],
        models={"hidden": ["^m"]},
    )
    profile = load_profile("mine.yaml", None, tmp_path)
    assert profile.request.images == "rejected"
    assert (profile.request.tool_choice.none, profile.request.tool_choice.named) == ("ignored", "rejected")
    assert [rule.when.code for rule in profile.errors] == ["m", "b"]  # the first match wins
    assert profile.models.hidden == ["^m"]
    assert (profile.notes, profile.discovery.ports, profile.evidence) == ("", [], {})  # these speak of one server


def test_overrides_come_last(tmp_path: Path) -> None:
    _write(tmp_path, "mine.yaml", extends="vllm", errors=[{"when": {"code": "m"}, "then": "overloaded"}])
    overrides = {
        "request": {"images": "rejected", "optional_fields": {"seed": "ignored"}},
        "errors": [{"when": {"code": "o"}, "then": "overloaded"}],
    }
    profile = load_profile("mine.yaml", overrides, tmp_path)
    vllm = load_profile("vllm")
    assert profile.request.images == "rejected"
    assert profile.request.optional_fields == vllm.request.optional_fields | {"seed": "ignored"}
    assert [rule.when.code for rule in profile.errors[:2]] == ["o", "m"]
    assert profile.errors[2:] == vllm.errors


def test_a_file_extends_one_beside_it_from_wherever_it_is_named(tmp_path: Path) -> None:
    _write(tmp_path, "deep/down/base.yaml", request={"stream": "always"})
    _write(tmp_path, "deep/mine.yml", extends="down/base.yaml")
    assert load_profile("deep/mine.yml", None, tmp_path).request.stream == "always"
    assert load_profile(str(tmp_path / "deep/mine.yml")).request.stream == "always"


def test_merging_leaves_both_alone() -> None:
    under: dict[str, Any] = {"a": {"b": 1, "c": [1]}, "errors": [1], "d": 1}
    over: dict[str, Any] = {"a": {"c": [2]}, "errors": [2], "d": {"e": 1}}
    assert merge(under, over) == {"a": {"b": 1, "c": [2]}, "errors": [2, 1], "d": {"e": 1}}
    assert under == {"a": {"b": 1, "c": [1]}, "errors": [1], "d": 1}
    assert over == {"a": {"c": [2]}, "errors": [2], "d": {"e": 1}}


@pytest.mark.parametrize(
    ("data", "problems"),
    [
        ({"request": {"imges": "kept"}}, ["request.imges: Extra inputs are not permitted"]),
        ({"request": {"tool_choice": {"nmed": "kept"}}}, ["request.tool_choice.nmed: Extra inputs are not permitted"]),
        ({"request": {"images": "sometimes"}}, ["request.images: Input should be 'kept', 'ignored', 'rejected' or 'unknown'"]),
        (
            {"request": {"optional_fields": {"seed": "no"}}},
            ["request.optional_fields.seed: Input should be 'kept', 'ignored', 'rejected' or 'unknown'"],
        ),
        ({"errors": [{"when": {}, "then": "bogus"}]}, ["errors[0].then: Value error, names no error; known are "]),
        ({"errors": [{"when": {"message": "("}, "then": "overloaded"}]}, ["errors[0].when.message: Value error, is no regular"]),
        ({"observed": []}, ["observed: List should have at least 1 item"]),
        ({"evidence": {"request.imges": "x"}}, ["evidence.request.imges: names no fact of this profile"]),
        ({"evidence": {"request.images.x": "x", "": "x"}}, ["evidence.request.images.x: names no", "evidence.: names no"]),
        ({"request": {"imges": 1}, "respons": 1}, ["request.imges: Extra", "respons: Extra inputs are not permitted"]),
        ({"extends": 5}, ["extends: must be the name of a profile"]),
        ({"extends": "nobody"}, ["is no built-in profile ("]),
        ({"extends": "nobody.yaml"}, ["cannot be read: No such file or directory"]),
    ],
)  # fmt: skip
def test_what_is_wrong_names_its_path(data: dict[str, Any], problems: list[str], tmp_path: Path) -> None:
    _write(tmp_path, "mine.yaml", **data)
    found = _problems("mine.yaml", tmp_path)
    assert len(found) == len(problems)
    for said, expected in zip(sorted(found), sorted(problems), strict=True):
        assert said.startswith(expected)


def test_a_misspelt_override_names_its_path(tmp_path: Path) -> None:
    assert _problems("vllm", tmp_path, {"request": {"stram": "always"}}) == [
        "request.stram: Extra inputs are not permitted"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"a: [", "is no YAML: "),
        (b"- a", "is no mapping of settings"),
        (b"", "is no mapping of settings"),
        (b"\xff\xfe", "cannot be read: is no UTF-8 text"),
        (b"a: !!python/object:os.system {}", "is no YAML: "),
    ],
)
def test_what_is_no_profile(text: bytes, problem: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(text)
    assert _problems("mine.yaml", tmp_path)[0].startswith(problem)


def test_a_folder_is_no_profile(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").mkdir()
    assert _problems("mine.yaml", tmp_path) == ["cannot be read: Is a directory"]


@pytest.mark.parametrize("circle", [["a.yaml"], ["a.yaml", "b.yaml"], ["a.yaml", "./a.yaml"]])
def test_circles_are_told(circle: list[str], tmp_path: Path) -> None:
    for name, parent in zip(circle, [*circle[1:], circle[0]], strict=True):
        _write(tmp_path, name, extends=parent)
    (problem,) = _problems("a.yaml", tmp_path)
    assert problem.startswith("extends: goes in a circle: a.yaml > ")


@pytest.mark.parametrize(
    ("content", "more"),
    [
        (b"extends: sub/b.yaml", ["sub/b.yaml", "sub/../c.yaml"]),
        (b"extends: openai", []),
        (b"extends: absent.yaml", ["absent.yaml"]),
        (b"extends: a.yaml", ["a.yaml"] * 7),
        (b"extends: [x]", []),
        (b"- extends", []),
        (b"a: [", []),
        (b"[" * 5000, []),
        (b"\xff", []),
    ],
)
def test_the_files_of_a_profile(content: bytes, more: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(content)
    _write(tmp_path, "sub/b.yaml", extends="../c.yaml")
    _write(tmp_path, "c.yaml")
    assert list(profile_files(str(tmp_path / "a.yaml"))) == [tmp_path / name for name in ("a.yaml", *more)]
