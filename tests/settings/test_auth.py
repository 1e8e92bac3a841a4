"""Keys in every form, hashed; never shown."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from svir_proxy.settings.auth import AuthSettings


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def test_each_form_of_a_key_is_hashed_under_its_name(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("sk-file\n")
    (tmp_path / "many").write_text("# rotation\nsk-x\n\n  sk-y # old\n")
    auth = AuthSettings.model_validate(
        {
            "keys": [
                "sk-plain",
                {"name": "ci", "key": "sk-named"},
                {"key_file": str(tmp_path / "one")},
                {"name": "hash", "sha256": _digest("sk-hashed").hex().upper()},
            ],
            "keys_file": str(tmp_path / "many"),
        }
    )
    assert auth.hashed() == [
        ("keys[0]", _digest("sk-plain")),
        ("ci", _digest("sk-named")),
        ("keys[2]", _digest("sk-file")),
        ("hash", _digest("sk-hashed")),
        ("keys_file:2", _digest("sk-x")),
        ("keys_file:4", _digest("sk-y")),
    ]
    assert "sk-" not in repr(auth) + str(auth)
    assert AuthSettings.model_validate({"keys": auth.keys, "keys_file": auth.keys_file}) == auth


def test_no_keys_hash_to_nothing() -> None:
    assert AuthSettings().hashed() == []


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (1234, "must be a key in quotes"),
        (None, "must be a key in quotes"),
        ({}, "has no key; give key, key_file or sha256"),
        ({"name": "x"}, "has no key"),
        ({"key": "a", "sha256": "0" * 64}, "has key and sha256; keep one"),
        ({"sha256": "0" * 63}, "64 hex digits"),
        ({"name": "a b", "key": "x"}, "letters, digits"),
        ("", "no header can carry"),
        ("a b", "no header can carry"),
    ],
)
def test_no_keys(key: Any, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        AuthSettings.model_validate({"keys": [key]})


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be read"),
        ("", "holds no key"),
        ("# only\n\n", "holds no key"),
        ("sk-ok\nsk secret", "line 2 is no key"),
    ],
)
def test_a_keys_file_that_protects_nothing_is_refused(tmp_path: Path, content: str | None, told: str) -> None:
    path = tmp_path / "keys"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValidationError, match=told) as refused:
        AuthSettings.model_validate({"keys_file": path})
    assert "secret" not in refused.value.errors()[0]["msg"]


@pytest.mark.parametrize("value", ["", 3])
def test_what_is_no_path(value: Any) -> None:
    with pytest.raises(ValidationError, match="must be the path of a file"):
        AuthSettings.model_validate({"keys_file": value})
