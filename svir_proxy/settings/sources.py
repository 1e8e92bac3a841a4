"""Where settings come from: the YAML file with its ``${NAME}``, and the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from pydantic_settings import EnvSettingsSource

from svir_proxy.profiles import profile_files
from svir_proxy.settings.model import Settings
from svir_proxy.settings.problems import Problem, SettingsError, dotted, suggest

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

PREFIX: Final = "SVIR_"
CONFIG_VARIABLE: Final = "SVIR_CONFIG"
DEFAULT_FILE: Final = Path("config/svir.yaml")

_VARIABLE: Final = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOO_DEEP: Final = "is nested too deeply, or has an anchor within itself"
_PATH_KEYS: Final = frozenset({"keys_file", "key_file", "api_key_file", "ca_file", "store_file"})
_QUOTED: Final = re.compile(r"'(?!<|\\\w+')[^']{2,}'")


def find_config(config: Path | None) -> Path | None:
    """The configuration file: *config*, else ``SVIR_CONFIG``, else ``./config/svir.yaml`` if present, else none."""
    if config is not None:
        return config
    if named := os.environ.get(CONFIG_VARIABLE):
        return Path(named)
    return DEFAULT_FILE if DEFAULT_FILE.is_file() else None


def read_file(path: Path, problems: list[Problem]) -> dict[str, Any]:
    """The settings of a YAML file, with variables replaced and paths that start at its folder.

    What is wrong with a single value goes to *problems*. Raises SettingsError where there is nothing to read.
    """
    try:
        document = yaml.load(path.read_text("utf-8"), _Loader)  # noqa: S506 a SafeLoader
    except OSError as exc:
        raise SettingsError(
            [(str(path), f"cannot be read ({exc.strerror}); check --config and {CONFIG_VARIABLE}")]
        ) from None
    except UnicodeDecodeError:
        raise SettingsError([(str(path), "is no UTF-8 text; save it as UTF-8")]) from None
    except yaml.YAMLError as exc:
        raise SettingsError([(str(path), _syntax(exc))]) from None
    except RecursionError:
        raise SettingsError([(str(path), _TOO_DEEP)]) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise SettingsError([(str(path), "is no mapping of settings; it begins with 'backends:' and a list of them")])
    try:
        settings: dict[str, Any] = _resolve(document, (), path.parent, problems)
    except RecursionError:
        raise SettingsError([(str(path), _TOO_DEEP)]) from None
    return settings


def read_environment(problems: list[Problem]) -> dict[str, Any]:
    """The settings that ``SVIR_...`` variables hold."""
    for name in os.environ:
        # One underscore is left alone: Kubernetes sets SVIR_PORT and the like for a service called svir.
        section, nested, rest = name.upper().removeprefix(PREFIX).partition("__")
        if name.upper().startswith(PREFIX) and nested and section.lower() not in Settings.model_fields:
            said = suggest(section.lower(), Settings.model_fields).replace(section.lower(), section)
            problems.append((name, f"names no setting: {section} {said}" if rest else f"names no setting: {said}"))
    return _Environment(problems)()


def variable_of(path: str) -> str | None:
    """The environment variable that sets the setting at *path*, if it is set."""
    wanted = (PREFIX + path.replace(".", "__")).upper()
    return next((name for name, value in os.environ.items() if name.upper() == wanted and value), None)


def named_files(settings: Any) -> Iterator[Path]:
    """The files that *settings*, in the shape of the configuration file, name: there or not, right or not."""
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            if not isinstance(value, str):
                yield from named_files(value)
            elif key in _PATH_KEYS and value:
                yield Path(value)
            elif key == "profile" and value.endswith((".yaml", ".yml")):
                yield from profile_files(value)
    elif isinstance(settings, list):
        for value in settings:
            yield from named_files(value)


class _Environment(EnvSettingsSource):
    """Reports what is no JSON, instead of ending at the first."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__(Settings)

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            name = next(name for name, text in self.env_vars.items() if text == value and name.endswith(field_name))
            path = name.removeprefix(PREFIX.lower()).replace("__", ".")
            self.problems.append((path, f"{name.upper()} is no JSON; write a list as [...], a mapping as {{...}}"))
            return None


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in a mapping, where YAML would take the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise yaml.MarkedYAMLError(None, None, "a key stands twice here; keep one", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _syntax(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "is no YAML"
    # A name in quotes may be a secret that began with * or !; a character, escaped or not, or a token cannot.
    problem = _QUOTED.sub("a name", problem)
    return (
        f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark is not None else f"is no YAML: {problem}"
    )


def _resolve(value: Any, at: tuple[str | int, ...], folder: Path, problems: list[Problem]) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _resolve(inner, (*at, str(key)), folder, problems) for key, inner in value.items()}
    if isinstance(value, list):
        return [_resolve(inner, (*at, index), folder, problems) for index, inner in enumerate(value)]
    if not isinstance(value, str):
        return value
    text = _substitute(value, dotted(at), problems)
    is_path = at[-1] in _PATH_KEYS or (at[-1] == "profile" and text.endswith((".yaml", ".yml")))
    return str(folder / text) if is_path and text else text


def _substitute(text: str, path: str, problems: list[Problem]) -> str:
    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "${"
        if not _NAME.fullmatch(name):
            problems.append((path, "has a ${...} that names no variable; write ${NAME}, or $${ for a plain ${"))
        elif name not in os.environ:
            problems.append((path, f"needs the environment variable {name}, which is not set; set it"))
        else:
            return os.environ[name]
        return match[0]

    return _VARIABLE.sub(replace, text)
