"""The configuration files that ship: the example names every setting and is right in every line, commented or not."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from pydantic import BaseModel

from svir_proxy.profiles import builtin_names
from svir_proxy.settings import AuthKey, Backend, KeyLimits, Settings, Timeouts, load_settings
from tests.server.transport.raw_server import Certificate

CONFIG: Final = Path(__file__).parents[1] / "config"
EXAMPLE: Final = CONFIG / "svir.example.yaml"

_SECTION: Final = re.compile(r"(\w+):")
_COMMENTED: Final = re.compile(r"(?P<indent> *)# (?P<key>[a-z_0-9]+):( .*)?")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("SVIR_"):
            monkeypatch.delenv(name)
    for text in map(Path.read_text, CONFIG.rglob("*.yaml")):
        for name in re.findall(r"\$\{([A-Z_]+)\}", text):
            monkeypatch.setenv(name, "sk-test")


def _examples() -> Iterator[tuple[str, str, Any]]:
    """Section, key and value of every example that is commented out."""
    lines = EXAMPLE.read_text("utf-8").splitlines()
    section = ""
    for number, line in enumerate(lines):
        if found := _SECTION.match(line):
            section = found[1]
        found = _COMMENTED.fullmatch(line)
        if found and section:
            start = f"{found['indent']}#"
            block = [line[len(start) + 1 :]]
            for below in lines[number + 1 :]:
                if not below.startswith(f"{start}   "):
                    break
                block.append(below[len(start) + 1 :])
            yield section, found["key"], yaml.safe_load("\n".join(block))[found["key"]]


_EXAMPLES: Final = list(_examples())


def _load(path: Path, document: dict[str, Any]) -> Settings:
    path.write_text(yaml.safe_dump(document))
    return load_settings(path)


def _mounted(value: Any, folder: Path) -> Any:
    """*value* with the files that it names made in *folder*."""
    if isinstance(value, dict):
        return {key: _mounted(inner, folder) for key, inner in value.items()}
    if isinstance(value, list):
        return [_mounted(inner, folder) for inner in value]
    if isinstance(value, str) and value.startswith("/"):
        path = folder / Path(value).name
        if path.suffix == ".pem":
            Certificate(folder).pem.rename(path)
        else:
            path.write_text("redis://:secret@127.0.0.1:6379/0" if "store" in path.name else "sk-mounted")
        return str(path)
    return value


@pytest.mark.parametrize(("section", "key", "value"), _EXAMPLES, ids=[f"{s}.{k}" for s, k, _ in _EXAMPLES])
def test_each_example_that_is_commented_out_is_right(tmp_path: Path, section: str, key: str, value: Any) -> None:
    document = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    target = document["backends"][0] if section == "backends" else document[section]
    target[key] = _mounted(value, tmp_path)
    settings = _load(tmp_path / "svir.yaml", document)
    holder = settings.backends[0] if section == "backends" else getattr(settings, section)
    assert getattr(holder, key) != type(holder).model_fields[key].get_default(), "an example shows no default"


def test_every_setting_is_in_the_example() -> None:
    written = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    shown = {(section, key) for section, key, _ in _EXAMPLES}
    shown |= {(section, key) for section, keys in written.items() if section != "backends" for key in keys}
    shown |= {("backends", key) for key in written["backends"][0]}
    sections: dict[str, type[BaseModel]] = {
        name: type(field.get_default()) for name, field in Settings.model_fields.items() if name != "backends"
    }
    wanted = {(section, key) for section, model in sections.items() for key in model.model_fields}
    assert shown == wanted | {("backends", key) for key in Backend.model_fields}
    assert set(written["backends"][0]["timeouts"]) == set(Timeouts.model_fields)
    [keys] = [value for section, key, value in _EXAMPLES if (section, key) == ("auth", "keys")]
    assert {key for entry in keys if isinstance(entry, dict) for key in entry} == set(AuthKey.model_fields)
    [limits] = [value for section, key, value in _EXAMPLES if (section, key) == ("auth", "limits")]
    assert set(limits) == set(KeyLimits.model_fields)


def test_the_example_shows_the_defaults() -> None:
    settings = load_settings(EXAMPLE)
    assert settings.model_copy(update={"backends": []}) == Settings()
    [backend] = settings.backends
    assert backend == Backend(name=backend.name, base_url=backend.base_url, profile=backend.profile)


def test_the_default_configuration_changes_nothing() -> None:
    assert load_settings(CONFIG / "svir.yaml") == Settings()


def test_each_profile_has_a_ready_backend() -> None:
    names = {path.stem for path in (CONFIG / "backends").glob("*.yaml")}
    assert names == set(builtin_names())


@pytest.mark.parametrize("path", sorted((CONFIG / "backends").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_ready_backend_is_right(path: Path) -> None:
    [backend] = load_settings(path).backends
    assert backend.loaded_profile.name == path.stem
    ports = backend.loaded_profile.discovery.ports
    assert not ports or int(backend.root.rpartition(":")[2]) in ports
