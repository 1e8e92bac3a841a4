"""Keys in every form, hashed; never shown."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from svir_proxy.settings import KeyLimits, Settings
from svir_proxy.settings.auth import AuthSettings
from svir_proxy.settings.problems import problems_of


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


# ----------------------------------------------------------------- what a key may do


def _auth(*keys: Any, **more: Any) -> AuthSettings:
    return AuthSettings.model_validate({"keys": list(keys), **more})


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2027-01-31", "2027-01-31T23:59:59.999999+00:00"),
        (date(2027, 1, 31), "2027-01-31T23:59:59.999999+00:00"),  # as YAML reads it
        ("2027-01-31T18:00:00", "2027-01-31T18:00:00+00:00"),
        ("2027-01-31T18:00:00Z", "2027-01-31T18:00:00+00:00"),
        ("2027-01-31 18:00:00+02:00", "2027-01-31T16:00:00+00:00"),
        (datetime(2027, 1, 31, 18, tzinfo=UTC), "2027-01-31T18:00:00+00:00"),
    ],
)
def test_a_day_is_the_last_one_and_times_are_in_utc(written: Any, moment: str) -> None:
    [holder] = _auth({"key": "sk", "expires": written}).holders()
    assert holder.expires == datetime.fromisoformat(moment).timestamp()


def test_holders() -> None:
    own, default = {"requests_per_day": 1}, {"tokens_per_day": 9}
    auth = _auth(
        "sk-a",
        {"name": "b", "key": "sk-b", "models": ["m"], "limits": own},
        {"key": "sk-c", "limits": {}},
        limits=default,
    )
    a, b, c = auth.holders()
    assert (a.name, b.name, c.name) == ("keys[0]", "b", "keys[2]")
    assert (a.models, b.models) == (None, ("m",))
    assert (a.limits, b.limits, c.limits) == (KeyLimits(**default), KeyLimits(**own), KeyLimits())
    # a key without a name is counted under what it is, wherever it stands
    assert _auth("sk-x", "sk-a").holders()[1].account == a.account
    assert a.account.startswith("sha256:")
    assert a.digest.hex()[:16] not in a.account, "the store is told nothing that a key could be guessed by"
    assert b.account == "key:b"


@pytest.mark.parametrize(
    ("keys", "more", "path", "words"),
    [
        ([{"key": "k", "expires": "tomorrow"}], {}, "keys[0].expires", "must be a day such as 2027-01-31"),
        ([{"key": "k", "expires": 7}], {}, "keys[0].expires", "must be a day such as 2027-01-31"),
        (
            [{"key": "k", "limits": {"requests_per_hour": 1}}],
            {},
            "keys[0].limits.requests_per_hour",
            "is unknown; did you",
        ),
        (
            [{"key": "k", "limits": {"requests_per_day": 0}}],
            {},
            "keys[0].limits.requests_per_day",
            "greater than or equal to 1",
        ),
        ([{"key": "k", "models": [""]}], {}, "keys[0].models[0]", "must be a model's name, with one * at most"),
        (
            [{"key": "k", "models": ["m", "a*b*"]}],
            {},
            "keys[0].models[1]",
            "must be a model's name, with one * at most",
        ),
        ([], {"store": "http://h"}, "store", "must be a URL such as redis://host:6379/0"),
        ([], {"store": "redis://"}, "store", "must be a URL such as"),
        ([], {"store": "redis://h:port"}, "store", "must be a URL such as"),
        (
            [],
            {"store": "valkeys://h?secret@store=1"},
            "store",
            "has something behind the ? that redis-py does not know",
        ),
        ([], {"store": "redis://h?max_connections=x"}, "store", "has something behind the ? that"),
        ([], {"store": "redis://a", "store_file": "URL"}, "store", "stands beside store_file; keep one"),
        ([], {"store_file": "BAD"}, "store_file", "what it holds must be a URL such as"),
        ([], {"store_down": "ajar"}, "store_down", "'open' or 'closed'"),
        (
            [{"name": "a", "key": "k"}, {"name": "a", "key": "l", "models": ["m"], "limits": {}}],
            {},
            "keys[1].models",
            "differs from that of keys[0], which has the same name; keys of one name are one holder",
        ),
    ],
)
def test_what_is_wrong_is_told_where_it_is(
    tmp_path: Path, keys: list[Any], more: dict[str, Any], path: str, words: str
) -> None:
    (tmp_path / "URL").write_text("valkeys://:secret@store\n")
    (tmp_path / "BAD").write_text("secret@store")
    more = {name: str(tmp_path / value) if name == "store_file" else value for name, value in more.items()}
    with pytest.raises(ValidationError) as caught:
        Settings(auth={"keys": keys, **more})  # type: ignore[arg-type]
    problems = dict(problems_of(caught.value, Settings))
    assert words in problems[f"auth.{path}"]
    assert "secret" not in str(problems) + str(caught.value)


def test_the_store_is_a_secret_however_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("valkeys://:secret@store\n")
    for auth in (_auth(store="valkeys://:secret@store"), _auth(store_file=str(tmp_path / "url"))):
        assert auth.store_url is not None
        assert auth.store_url.get_secret_value() == "rediss://:secret@store", "as the one client has it"
        assert AuthSettings.model_validate({"store": auth.store, "store_file": auth.store_file}) == auth
        assert "secret@" not in repr(auth)
    assert _auth().store_url is None


def test_a_store_needs_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svir_proxy.settings.fields.find_spec", lambda _: None)
    with pytest.raises(ValidationError, match=r"pip install 'svir-proxy\[redis\]'"):
        _auth(store="redis://h")
