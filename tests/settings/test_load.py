"""Flags over environment over file over defaults; every problem of every source in one go; no secret in any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from svir_proxy.settings import SettingsError, configuration_files, load_settings

_FILE = "server: {port: 1001, host: localhost, drain_seconds: 3}\nbackends: [{name: in-file, base_url: 'http://h'}]\n"


def _problems(path: Path, flags: dict[str, Any] | None = None) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        load_settings(path, flags or {})
    return refused.value.lines()


def test_no_configuration_at_all() -> None:
    assert load_settings().backends == []


@pytest.mark.parametrize(
    ("environment", "flags", "port"),
    [
        ({}, {}, 1001),
        ({"SVIR_SERVER__PORT": "1002"}, {}, 1002),
        ({"SVIR_SERVER__PORT": "1002"}, {"server": {"port": 1003}}, 1003),
        ({"SVIR_SERVER__HOST": "127.0.0.1"}, {"server": {}}, 1001),
    ],
)
def test_precedence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], flags: dict[str, Any], port: int
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(_FILE)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    settings = load_settings(path, flags)
    assert settings.server.port == port
    assert settings.server.drain_seconds == 3, "the rest of the section stays"
    assert [backend.name for backend in settings.backends] == ["in-file"]


def test_backends_from_the_environment_take_the_place_of_the_file_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(_FILE)
    monkeypatch.setenv(
        "SVIR_BACKENDS", json.dumps([{"name": "a", "base_url": "http://h"}, {"name": "b", "base_url": "http://i"}])
    )
    assert [backend.name for backend in load_settings(path).backends] == ["a", "b"]


def test_the_file_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.yaml").write_text(_FILE)
    monkeypatch.setenv("SVIR_CONFIG", "c.yaml")
    assert load_settings().server.port == 1001


def test_the_file_of_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMSTUDIO_KEY", "sk-lm")
    path = tmp_path / "c.yaml"
    path.write_text(
        """
server:
  host: 127.0.0.1
  port: 8484
auth:
  keys: []
backends:
  - name: local
    base_url: http://127.0.0.1:1234/v1
    profile: lm-studio
    api_key: ${LMSTUDIO_KEY}
    models: {}
    overrides: {}
"""
    )
    [backend] = load_settings(path).backends
    assert backend.key is not None
    assert (backend.root, backend.loaded_profile.server, backend.key.get_secret_value()) == (
        "http://127.0.0.1:1234",
        "LM Studio",
        "sk-lm",
    )


def test_a_profile_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "mine.yaml").write_text("name: mine\nextends: openai\nserver: Mine\nobserved: [{source: run}]\n")
    (folder / "c.yaml").write_text("backends: [{name: a, base_url: 'http://h', profile: mine.yaml}]")
    [backend] = load_settings(folder / "c.yaml").backends
    assert backend.loaded_profile.request.max_tokens_field == "max_completion_tokens"
    monkeypatch.chdir(folder)
    assert load_settings(Path("c.yaml")).backends[0].loaded_profile == backend.loaded_profile


def test_every_problem_of_every_source_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVIR_SEVER__HOST", "x")
    monkeypatch.setenv("SVIR_STREAMING__KEEPALIVE", "sk-secret")
    monkeypatch.setenv("PASSWORD", "sk secret")
    path = tmp_path / "c.yaml"
    path.write_text(
        """
server: {prot: 1}
auth: {keys: ["${PASSWORD}", {sk-secret: null}], keys_file: absent}
backends:
  - {name: a, base_url: "http://${NOPE}", profile: opnai, api_key_file: absent}
  - {name: a, base_url: "http://u:sk-secret@h", overrides: {request: {imags: kept}}}
  - {name: a}
"""
    )
    lines = _problems(path, {"server": {"port": "sk-secret"}})
    assert sorted(line.partition("; known")[0].partition("; check")[0] for line in lines) == sorted(
        [
            "SVIR_SEVER__HOST: names no setting: SEVER is unknown; did you mean server?",
            "server.prot: is unknown; did you mean port?",
            "server.port: must be a whole number (set by --port)",
            "streaming.keepalive: must be a number (set by SVIR_STREAMING__KEEPALIVE)",
            "auth.keys[0].key: is empty or holds a space, a line break or a letter outside ASCII; no header can carry it",
            "auth.keys[1]: has an unknown setting",
            f"auth.keys_file: {tmp_path / 'absent'} cannot be read (No such file or directory)",
            "backends[0].base_url: needs the environment variable NOPE, which is not set; set it",
            "backends[0].profile: is unknown; did you mean openai? (or the path of a .yaml file)",
            f"backends[0].api_key_file: {tmp_path / 'absent'} cannot be read (No such file or directory)",
            "backends[1].base_url: carries a user name or a password, which would end in logs; put the key under api_key",
            "backends[1].overrides.request.imags: is unknown; did you mean images?",
            "backends[2].base_url: is missing; set it",
            "backends[1].name: is the name of backends[0] too; give it another",
            "backends[2].name: is the name of backends[0] too; give it another",
        ]
    )
    assert "secret" not in "".join(lines)


def test_a_missing_variable_alone_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("backends: [{name: a, base_url: 'http://h', api_key: '${NOPE}'}]")
    assert _problems(path) == ["backends[0].api_key: needs the environment variable NOPE, which is not set; set it"]


def test_an_open_proxy_is_refused_wherever_the_host_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.yaml"
    path.touch()
    monkeypatch.setenv("SVIR_SERVER__HOST", "0.0.0.0")
    [line] = _problems(path)
    assert line.startswith("auth.keys: are missing")
    monkeypatch.setenv("SVIR_AUTH__KEYS", '["sk"]')
    assert load_settings(path).auth.hashed()


_NAMING = """
auth: {keys_file: keys, keys: [{name: a, key_file: sub/a}]}
backends:
  - {name: x, base_url: "http://h", profile: mine.yaml, api_key_file: /run/k, ca_file: ca.pem}
  - {name: y, base_url: "http://h", profile: openai, api_key_file: ""}
  - {name: z, profile: absent.yaml}
"""


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (_NAMING, {"keys", "sub/a", "mine.yaml", "base.yaml", "/run/k", "ca.pem", "absent.yaml"}),
        ("auth: {keys_file: [1]}\nbackends: {profile: 3}", set()),
        ("auth: {keys_file: keys", set()),
        (None, set()),
    ],
    ids=["named", "no names", "no YAML", "no file"],
)
def test_the_files_that_make_a_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, named: set[str]
) -> None:
    monkeypatch.setenv("SVIR_AUTH__KEYS", '[{"key_file": "/from/environment"}]' if text == _NAMING else "")
    (tmp_path / "mine.yaml").write_text("extends: base.yaml")
    (tmp_path / "base.yaml").write_text("extends: openai")
    path = tmp_path / "c.yaml"
    if text is not None:
        path.write_text(text)
    if text == _NAMING:
        named = named - {"sub/a"} | {"/from/environment"}
    assert configuration_files(path) == {path} | {tmp_path / name for name in named}


def test_a_configuration_that_could_come() -> None:
    assert configuration_files() == {Path("config/svir.yaml")}
