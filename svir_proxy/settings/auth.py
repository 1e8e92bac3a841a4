"""The keys that clients of the proxy show."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, PlainValidator, SecretStr, WithJsonSchema, model_validator

from svir_proxy.settings.fields import Key, KeyFile, Name, Section, check_token, read_text


def hex_digest(value: str) -> str:
    """A SHA-256 in hex; ValueError where it is none."""
    if not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise ValueError("must be 64 hex digits; printf %s KEY | sha256sum prints them")
    return value


class AuthKey(Section):
    """One key: exactly one of ``key``, ``key_file`` and ``sha256``."""

    name: Name | None = None
    """How logs call the holder; without it the key's place in the configuration."""
    key: Key | None = None
    """The key itself; better as ${NAME} than written out."""
    key_file: KeyFile | None = None
    """A file that holds the key."""
    sha256: Annotated[str, AfterValidator(hex_digest)] | None = Field(default=None, repr=False)
    """The SHA-256 of the key in hex, for a configuration that holds no secret."""

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"key": data}
        if not isinstance(data, dict | AuthKey):
            raise ValueError("must be a key in quotes, or a mapping with key, key_file or sha256")  # noqa: TRY004 pydantic reports ValueError only
        return data

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in ("key", "key_file", "sha256") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"has {' and '.join(given)}; keep one" if given else "has no key; give key, key_file or sha256"
            )
        return self

    @property
    def digest(self) -> bytes:
        """The SHA-256 of the key, 32 bytes."""
        if self.sha256 is not None:
            return bytes.fromhex(self.sha256)
        secret = self.key_file.secret if self.key_file is not None else self.key
        assert secret is not None
        return _digest(secret)


@dataclass(frozen=True, slots=True)
class KeysInFile:
    """A file of keys and what was in it: line number and key."""

    path: Path
    keys: tuple[tuple[int, SecretStr], ...]


def _keys_file(value: Any) -> Any:
    if isinstance(value, KeysInFile):
        return value
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError("must be the path of a file")
    path = Path(value)
    keys = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        key = line.partition(" #")[0].strip()
        if not key or key.startswith("#"):
            continue
        try:
            keys.append((number, SecretStr(check_token(key))))
        except ValueError:
            raise ValueError(f"{path} line {number} is no key; write one key a line, without spaces") from None
    if not keys:
        raise ValueError(f"{path} holds no key; write one key a line")
    return KeysInFile(path, tuple(keys))


class AuthSettings(Section):
    """Who may use the proxy. Without a key everybody may, and then it binds to this machine only."""

    keys: list[AuthKey] = Field(default=[])
    """Keys that are accepted, as `Authorization: Bearer KEY`: each a text, or a mapping with a name."""
    keys_file: Annotated[KeysInFile, PlainValidator(_keys_file), WithJsonSchema({"type": "string"})] | None = None
    """A file with one more key a line; # begins a comment."""

    def hashed(self) -> list[tuple[str, bytes]]:
        """Name and SHA-256 digest (32 bytes) of every key; empty: the proxy is open."""
        found = [(key.name or f"keys[{index}]", key.digest) for index, key in enumerate(self.keys)]
        if self.keys_file is not None:
            found += [(f"keys_file:{line}", _digest(key)) for line, key in self.keys_file.keys]
        return found


def _digest(key: SecretStr) -> bytes:
    return hashlib.sha256(key.get_secret_value().encode()).digest()
