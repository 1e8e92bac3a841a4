"""Where there is an inspector, and what guards it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import ValidationError

from svir_proxy.settings import InspectorSettings, Settings, SettingsError, load_settings

KEYS: Final = {"keys": ["client-key"]}
PUBLIC: Final = {"host": "0.0.0.0"}

CASES: Final[dict[str, tuple[dict[str, Any], bool | str]]] = {
    "an open proxy": ({}, True),
    "turned off": ({"inspector": {"enabled": False}}, False),
    "keys for clients": ({"auth": KEYS}, False),
    "a public bind": ({"auth": KEYS, "server": PUBLIC}, False),
    "a key": ({"inspector": {"key": "k"}}, True),
    "a public bind and a key": ({"auth": KEYS, "server": PUBLIC, "inspector": {"key": "k"}}, True),
    "a public bind, a key, and off": ({"auth": KEYS, "server": PUBLIC, "inspector": {"key": "k", "enabled": False}}, False),
    "asked for": ({"inspector": {"enabled": True}}, True),
    "an unset variable": ({"auth": KEYS, "inspector": {"key": ""}}, False),
    "asked for on a public bind": ({"auth": KEYS, "server": PUBLIC, "inspector": {"enabled": True}}, "0.0.0.0"),
    "asked for beside keys": ({"auth": KEYS, "inspector": {"enabled": True}}, "auth.keys"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_where_it_is(name: str, tmp_path: Path) -> None:
    sections, expected = CASES[name]
    path = tmp_path / "svir.yaml"
    path.write_text(str(sections), "utf-8")
    if isinstance(expected, bool):
        assert load_settings(path).has_inspector is expected
        return
    with pytest.raises(SettingsError) as refused:
        load_settings(path)
    [(where, text)] = refused.value.problems
    assert where == "inspector.key"
    assert text.startswith("is missing, and")
    assert expected in text


def test_one_key_is_enough(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("from-a-file\n")
    secret = InspectorSettings.model_validate({"key_file": str(file)}).secret
    assert secret is not None
    assert secret.get_secret_value() == "from-a-file"
    with pytest.raises(ValidationError, match="keep one"):
        InspectorSettings.model_validate({"key": "k", "key_file": str(file)})


def test_no_setting_shows_the_key() -> None:
    settings = Settings.model_validate({"inspector": {"key": "of-nobodys-business"}})
    assert "nobody" not in repr(settings)
