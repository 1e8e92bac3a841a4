"""The sources of the settings, laid over each other and checked as one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from svir_proxy.settings.backend import repeated_names
from svir_proxy.settings.model import Settings
from svir_proxy.settings.problems import Problem, SettingsError, join, problems_of
from svir_proxy.settings.sources import DEFAULT_FILE, find_config, named_files, read_environment, read_file, variable_of

if TYPE_CHECKING:
    from pathlib import Path

_NO_FLAGS: Final[Mapping[str, Any]] = MappingProxyType({})


def load_settings(config: Path | None = None, flags: Mapping[str, Any] = _NO_FLAGS) -> Settings:
    """The settings: *flags* over the environment over the file over the defaults.

    Args:
        config: The configuration file; None: as `find_config` finds it.
        flags: What the command line sets, in the shape of the file: ``{"server": {"port": 9000}}``.

    Raises:
        SettingsError: With everything that is wrong, in all sources.
    """
    problems: list[Problem] = []
    path = find_config(config)
    in_file = read_file(path, problems) if path is not None else {}
    values = _overlay(_overlay(in_file, read_environment(problems)), flags)
    try:
        settings = Settings(**values)
    except ValidationError as exc:
        unread = {where for where, _ in problems}
        found = problems_of(exc, Settings)
        if isinstance(backends := values.get("backends"), list):
            found += [(join("backends", where), text) for where, text in repeated_names(backends)]
        # A value with a missing variable in it is wrong in other ways too, which would only distract.
        problems += [(where, text + _source(where, flags)) for where, text in found if where not in unread]
        raise SettingsError(problems) from None
    if problems:
        raise SettingsError(problems)
    return settings


def configuration_files(config: Path | None = None) -> frozenset[Path]:
    """The files that `load_settings` reads for *config*: the configuration file, and those that it names.

    Also those that are missing, or wrong: to make or correct one changes the settings.
    """
    path = find_config(config) or DEFAULT_FILE
    try:
        values = _overlay(read_file(path, []), read_environment([]))
    except SettingsError:
        values = read_environment([])
    return frozenset({path, *named_files(values)})


def _overlay(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _overlay(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def _source(path: str, flags: Mapping[str, Any]) -> str:
    section, _, name = path.partition(".")
    if section == "server" and name in flags.get(section, {}):
        return f" (set by --{name})"
    variable = variable_of(path)
    return f" (set by {variable})" if variable else ""
