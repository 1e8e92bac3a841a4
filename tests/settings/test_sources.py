"""The YAML file and the environment, before anything is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from svir_proxy.settings.problems import Problem, SettingsError
from svir_proxy.settings.sources import find_config, read_environment, read_file, variable_of


def _read(path: Path, text: str) -> tuple[dict[str, Any], list[Problem]]:
    path.write_text(text)
    problems: list[Problem] = []
    return read_file(path, problems), problems


def test_which_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_config(None) is None
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "svir.yaml").touch()
    assert find_config(None) == Path("config/svir.yaml")
    monkeypatch.setenv("SVIR_CONFIG", "named.yaml")
    assert find_config(None) == Path("named.yaml")
    assert find_config(Path("given.yaml")) == Path("given.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x: ${NAME}", "value"),
        ("x: a${NAME}b${OTHER}c", "avaluebc"),
        ("x: $NAME", "$NAME"),
        ("x: $${NAME}", "${NAME}"),
        ("x: '$${'", "${"),
        ("x: '${'", "${"),
        ("x: $$", "$$"),
        ("x: [{y: '${NAME}'}]", [{"y": "value"}]),
        ("${NAME}: 1", None),
    ],
)
def test_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, value: Any) -> None:
    monkeypatch.setenv("NAME", "value")
    monkeypatch.setenv("OTHER", "")
    read, problems = _read(tmp_path / "c.yaml", text)
    assert (read.get("x"), problems) == (value, [])


def test_a_value_from_the_environment_is_not_expanded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "${OTHER}")
    assert _read(tmp_path / "c.yaml", "x: ${NAME}") == ({"x": "${OTHER}"}, [])


def test_variables_that_are_missing(tmp_path: Path) -> None:
    _, problems = _read(tmp_path / "c.yaml", "a: {b: ['${NOPE}', '${A-B}${}']}")
    assert problems == [
        ("a.b[0]", "needs the environment variable NOPE, which is not set; set it"),
        ("a.b[1]", "has a ${...} that names no variable; write ${NAME}, or $${ for a plain ${"),
        ("a.b[1]", "has a ${...} that names no variable; write ${NAME}, or $${ for a plain ${"),
    ]


def test_paths_start_at_the_folder_of_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    read, _ = _read(
        folder / "c.yaml",
        "auth: {keys_file: k, keys: [{key_file: ../k}]}\n"
        "backends: [{profile: p.yaml, api_key_file: /run/k, ca_file: ca.pem}, {profile: openai, api_key_file: ''}]",
    )
    assert read == {
        "auth": {"keys_file": str(folder / "k"), "keys": [{"key_file": str(folder / "../k")}]},
        "backends": [
            {"profile": str(folder / "p.yaml"), "api_key_file": "/run/k", "ca_file": str(folder / "ca.pem")},
            {"profile": "openai", "api_key_file": ""},
        ],
    }


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_sets_nothing(tmp_path: Path, text: str) -> None:
    assert _read(tmp_path / "c.yaml", text) == ({}, [])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"server:\n  port: 1\n bad: 2\n", "line 3, column 2: "),
        (b"server: {port: 1\n", "line 2, column 1: "),
        (b"a: b: c\n", "line 1, column 5: mapping values are not allowed here"),
        (b"server: {port: 1}\nserver: {port: 2}\n", "line 2, column 1: a key stands twice here; keep one"),
        (b"a: {b: 1, b: 2}\n", "line 1, column 11: a key stands twice here; keep one"),
        (b"a: *sk-secret\n", "line 1, column 4: found undefined alias a name"),
        (b"a: !sk-secret x\n", "line 1, column 4: could not determine a constructor for the tag a name"),
        (b"a: !!python/object/apply:os.getcwd []\n", "line 1, column 4: could not determine a constructor"),
        (b"a:\n\t- 1\n", "line 2, column 1: found character '\\t' that cannot start any token"),
        (b"a: &a [*a]\n", "is nested too deeply, or has an anchor within itself"),
        (b"a: " + b"[" * 5000, "is nested too deeply, or has an anchor within itself"),
        (b"- 1\n", "is no mapping of settings"),
        (b"a: \xff\n", "is no UTF-8 text"),
        (b"a: \x00\n", "special characters are not allowed"),
        (None, "cannot be read (No such file or directory); check --config and SVIR_CONFIG"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None, told: str) -> None:
    path = tmp_path / "c.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError) as refused:
        read_file(path, [])
    [(where, text)] = refused.value.problems
    assert where == str(path)
    assert told in text
    assert "\n" not in text
    assert "secret" not in text


def test_merge_keys_are_yaml_as_usual(tmp_path: Path) -> None:
    read, _ = _read(tmp_path / "c.yaml", "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n")
    assert read["b"] == {"x": 1, "y": 3}


@pytest.mark.parametrize(
    ("variables", "values"),
    [
        ({"SVIR_SERVER__PORT": "9000"}, {"server": {"port": "9000"}}),
        ({"svir_server__port": "9000"}, {"server": {"port": "9000"}}),
        ({"SVIR_SERVER__PORT": ""}, {}),
        ({"SVIR_SERVER": '{"port": 1}', "SVIR_SERVER__HOST": "h"}, {"server": {"port": 1, "host": "h"}}),
        ({"SVIR_SERVER__ALLOWED_HOSTS": '["a"]'}, {"server": {"allowed_hosts": ["a"]}}),
        ({"SVIR_BACKENDS": '[{"name": "a"}]'}, {"backends": [{"name": "a"}]}),
        # what Kubernetes sets for a service called svir, or svir-proxy
        ({"SVIR_PORT": "tcp://10.0.0.1:80", "SVIR_PROXY_SERVICE_HOST": "10.0.0.1", "SVIR_CONFIG": "x"}, {}),
    ],
)
def test_environment(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], values: dict[str, Any]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    problems: list[Problem] = []
    assert read_environment(problems) == values
    assert problems == []


@pytest.mark.parametrize(
    ("name", "value", "where", "told"),
    [
        ("SVIR_SEVER__PORT", "1", "SVIR_SEVER__PORT", "names no setting: SEVER is unknown; did you mean server?"),
        ("SVIR_AUTH__KEYS", "sk-secret", "auth.keys", "SVIR_AUTH__KEYS is no JSON; write a list as [...]"),
        ("SVIR_BACKENDS", "[sk-secret]", "backends", "SVIR_BACKENDS is no JSON"),
        ("svir_server__allowed_hosts", "sk-secret", "server.allowed_hosts", "SVIR_SERVER__ALLOWED_HOSTS is no JSON"),
    ],
)
def test_environment_problems(monkeypatch: pytest.MonkeyPatch, name: str, value: str, where: str, told: str) -> None:
    monkeypatch.setenv(name, value)
    problems: list[Problem] = []
    read_environment(problems)
    [(path, text)] = problems
    assert path == where
    assert text.startswith(told)
    assert "secret" not in text


def test_the_variable_of_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("svir_server__port", "1")
    monkeypatch.setenv("SVIR_SERVER__HOST", "")
    assert variable_of("server.port") == "svir_server__port"
    assert variable_of("server.host") is None
    assert variable_of("backends[0].name") is None
