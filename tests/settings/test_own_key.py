"""A key of its own, in one of three forms or in none."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from svir_proxy.settings.own_key import OwnKey
from svir_proxy.settings.problems import problems_of

KEY = "sk-own"
DIGEST = hashlib.sha256(KEY.encode()).digest()


def test_however_it_is_given_it_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    given: list[dict[str, Any]] = [{"key": KEY}, {"key_file": str(tmp_path / "key")}, {"sha256": DIGEST.hex()}]
    assert [OwnKey.model_validate(form).digest for form in given] == [DIGEST] * 3
    assert not any(KEY in repr(OwnKey.model_validate(form)) for form in given)


@pytest.mark.parametrize("given", [{}, {"key": ""}, {"sha256": ""}, {"key": None}])
def test_it_may_be_none(given: dict[str, Any]) -> None:
    assert OwnKey.model_validate(given).digest is None


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"key": KEY, "sha256": DIGEST.hex()}, ("", "has key and sha256; keep one")),
        ({"key": "a b"}, ("key", "holds a space")),
        ({"sha256": "abc"}, ("sha256", "must be 64 hex digits")),
        ({"key_file": "nowhere"}, ("key_file", "nowhere cannot be read")),
        ({"keys": []}, ("keys", "did you mean key")),
    ],
)
def test_what_is_wrong_is_told(given: dict[str, Any], problem: tuple[str, str]) -> None:
    with pytest.raises(ValidationError) as caught:
        OwnKey.model_validate(given)
    [(path, text)] = problems_of(caught.value, OwnKey)
    assert path == problem[0]
    assert problem[1] in text
    assert KEY not in text
