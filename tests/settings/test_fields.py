"""The types that settings are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from svir_proxy.settings.fields import Bytes, KeyFile, Name, OptionalKey, PemFile, SecretFile, Section
from tests.server.transport.raw_server import Certificate


class _Example(Section):
    number: int = 1
    nested: dict[str, Any] = {}  # noqa: RUF012 pydantic copies it


@pytest.mark.parametrize(
    ("written", "size"),
    [(1, 1), ("1", 1), ("32MiB", 32 * 2**20), ("64 KiB", 65536), ("2GiB", 2**31), ("5B", 5)],
)
def test_sizes(written: Any, size: int) -> None:
    assert TypeAdapter(Bytes).validate_python(written) == size


@pytest.mark.parametrize("written", [0, -1, "0", "32MB", "-1", "1.5MiB", "", None, [], 1.5])
def test_no_sizes(written: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Bytes).validate_python(written)


@pytest.mark.parametrize("key", ["a b", "a\nb", "a\r", "schlüssel", "\x7f"])
def test_a_key_that_no_header_carries_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(ValidationError, match="no header can carry it") as refused:
        TypeAdapter(OptionalKey).validate_python(key)
    assert key not in refused.value.errors()[0]["msg"]


def test_an_empty_key_is_none() -> None:
    assert TypeAdapter(OptionalKey).validate_python("") is None


def test_a_key_file_is_read_without_its_line_end(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("  sk-secret\n")
    read = TypeAdapter(KeyFile).validate_python(str(path))
    assert read.secret.get_secret_value() == "sk-secret"
    assert "sk-secret" not in repr(read)
    assert TypeAdapter(KeyFile).validate_python(read) is read


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "cannot be read"), (b"", "is empty"), (b"two keys", "holds a space"), (b"\xff", "no UTF-8")],
)
def test_a_key_file_that_holds_no_key(tmp_path: Path, content: bytes | None, told: str) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValidationError, match=told) as refused:
        TypeAdapter(KeyFile).validate_python(path)
    assert refused.value.errors()[0]["msg"].count(str(path)) == 1


@pytest.mark.parametrize("value", [3, "", []])
def test_what_is_no_path(value: Any) -> None:
    with pytest.raises(ValidationError, match="must be the path of a file"):
        TypeAdapter(KeyFile).validate_python(value)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("nonsense", "holds no certificate in PEM form"),
        ("", "holds no certificate in PEM form"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "holds no certificate in PEM form"),
        (None, r"cannot be read \(No such file or directory\)"),
    ],
)
def test_what_is_no_ca_file(tmp_path: Path, content: str | None, told: str) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValidationError, match=told):
        TypeAdapter(PemFile).validate_python(path)


def test_a_ca_file(tmp_path: Path) -> None:
    path = Certificate(tmp_path).pem
    assert TypeAdapter(PemFile).validate_python(path) == path


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "a\n"])
def test_no_names(name: str) -> None:
    with pytest.raises(ValidationError, match="letters, digits"):
        TypeAdapter(Name).validate_python(name)


def test_a_null_setting_is_left_out_and_a_null_value_is_kept() -> None:
    assert _Example.model_validate({"number": None, "nested": {"a": None}}) == _Example(nested={"a": None})


@pytest.mark.parametrize("data", [{"nmber": None}, {"nmber": 1}])
def test_an_unknown_setting_is_refused_even_when_null(data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="nmber"):
        _Example.model_validate(data)


def test_a_section_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        _Example().number = 2
    assert SecretFile.__dataclass_params__.frozen  # type: ignore[attr-defined]
