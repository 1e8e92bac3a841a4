"""YAML files, what they extend and what a backend overrides, made into a `Profile`.

``extends`` merges key by key; ``errors`` rules of the extending profile come before those it extends (first match
wins); ``evidence`` and ``observed`` are not inherited: they speak of one server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from svir_proxy.profiles.schema import Profile

_NOT_INHERITED: Final = frozenset({"name", "observed", "evidence", "notes", "discovery"})
_MAX_DEPTH: Final = 8


class ProfileError(ValueError):
    """A profile cannot be used. ``problems`` are (dotted path, text) pairs."""

    def __init__(self, source: str, problems: list[tuple[str, str]]) -> None:
        self.source = source
        self.problems = problems
        super().__init__(
            "; ".join(f"{source}: {path}: {text}" if path else f"{source}: {text}" for path, text in problems)
        )


@cache
def builtin_names() -> tuple[str, ...]:
    """The profiles that ship with the package."""
    found = (entry.name for entry in files(__package__).iterdir() if entry.name.endswith(".yaml"))
    return tuple(sorted(name.removesuffix(".yaml") for name in found))


def load_profile(name_or_path: str, overrides: Mapping[str, Any] | None = None, base: Path | None = None) -> Profile:
    """A built-in profile by name or a YAML file by path, with *overrides* merged over it.

    *base* is the folder that relative paths start from. Raises ProfileError, naming the path of each problem.
    """
    source, data = _resolve(name_or_path, base or Path(), ())
    if overrides:
        data = merge(data, overrides)
    try:
        profile = Profile.model_validate(data)
    except ValidationError as exc:
        raise ProfileError(source, [(_dotted(e["loc"]), e["msg"]) for e in exc.errors()]) from None
    problems = []
    for path in profile.evidence:
        try:
            profile.fact(path)
        except KeyError:
            problems.append((f"evidence.{path}", "names no fact of this profile"))
    if problems:
        raise ProfileError(source, problems)
    return profile


def profile_files(path: str) -> Iterator[Path]:
    """The file of a profile and those that it extends, as far as they can be read."""
    at = Path(path)
    for _ in range(_MAX_DEPTH):
        yield at
        try:
            data = yaml.safe_load(at.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError):
            return
        parent = data.get("extends") if isinstance(data, dict) else None
        if not isinstance(parent, str) or parent in builtin_names():
            return
        at = at.parent / parent


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """*over* laid over *under*, key by key; ``errors`` rules are put in front, other lists replaced."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = merge(below, value)
        elif key == "errors" and isinstance(value, list) and isinstance(below, list):
            merged[key] = [*value, *below]
        else:
            merged[key] = value
    return merged


def _resolve(name_or_path: str, base: Path, seen: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    if name_or_path in seen or len(seen) >= _MAX_DEPTH:
        raise ProfileError(name_or_path, [("extends", f"goes in a circle: {' > '.join((*seen, name_or_path))}")])
    source, text, folder = _read(name_or_path, base)
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as exc:
        raise ProfileError(source, [("", f"is no YAML: {' '.join(str(exc).split())}")]) from None
    if not isinstance(data, dict):
        raise ProfileError(source, [("", "is no mapping of settings")])
    parent = data.get("extends")
    if parent is None:
        return source, data
    if not isinstance(parent, str):
        raise ProfileError(source, [("extends", "must be the name of a profile")])
    _, inherited = _resolve(parent, folder, (*seen, name_or_path))
    return source, merge({k: v for k, v in inherited.items() if k not in _NOT_INHERITED}, data)


def _read(name_or_path: str, base: Path) -> tuple[str, str, Path]:
    if name_or_path in builtin_names():
        return name_or_path, files(__package__).joinpath(f"{name_or_path}.yaml").read_text("utf-8"), base
    path = base / name_or_path
    if not name_or_path.endswith((".yaml", ".yml")):
        raise ProfileError(
            name_or_path, [("", f"is no built-in profile ({', '.join(builtin_names())}) and no path of a YAML file")]
        )
    try:
        return str(path), path.read_text("utf-8"), path.parent
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "is no UTF-8 text"
        raise ProfileError(str(path), [("", f"cannot be read: {reason}")]) from None


def _dotted(loc: tuple[int | str, ...]) -> str:
    path = ""
    for step in loc:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path
