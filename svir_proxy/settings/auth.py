"""The keys that clients of the proxy show, and what each of them may do."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, PlainValidator, SecretStr, WithJsonSchema, model_validator

from svir_proxy.settings.fields import (
    Expiry,
    Key,
    KeyFile,
    Name,
    Seconds,
    Section,
    StoreUrl,
    StoreUrlFile,
    check_token,
    read_text,
)
from svir_proxy.settings.problems import Problem, several
from svir_proxy.settings.rules import ModelPattern

Count = Annotated[int, Field(ge=1)]


def hex_digest(value: str) -> str:
    """A SHA-256 in hex; ValueError where it is none."""
    if not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise ValueError("must be 64 hex digits; printf %s KEY | sha256sum prints them")
    return value


class KeyLimits(Section):
    """How much one holder may ask for. What is not set has no limit. Minutes slide; days and months are UTC's."""

    requests_per_minute: Count | None = None
    """Requests in any 60 seconds, nearly: what the minute before counts for goes down with the seconds."""
    tokens_per_minute: Count | None = None
    """Tokens in and out, counted when an answer is over: the request that goes beyond is answered, the next is not."""
    concurrent_requests: Count | None = None
    """Requests at a time, streams included."""
    requests_per_day: Count | None = None
    """Requests from midnight to midnight, UTC."""
    tokens_per_day: Count | None = None
    """Tokens in and out, from midnight to midnight, UTC."""
    requests_per_month: Count | None = None
    """Requests in a month of the calendar, UTC."""
    tokens_per_month: Count | None = None
    """Tokens in and out in a month of the calendar, UTC."""


class Holder(NamedTuple):
    """Whom a key belongs to, and what comes with it.

    Attributes:
        name: As logs call it.
        digest: The SHA-256 of the key, 32 bytes.
        expires: Unix time from which on the key is refused; None: never.
        account: Under what the holder's requests are counted. Keys of one name are one account.
        models: The names that it may use, with ``*``; None: all.
        limits: How much it may ask for.
    """

    name: str
    digest: bytes
    expires: float | None
    account: str
    models: tuple[str, ...] | None
    limits: KeyLimits


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
    models: list[ModelPattern] | None = None
    """The models that the key may use, by the names that clients use; one * stands for any text. Not set: all."""
    expires: Expiry | None = None
    """When the key ends: a day, which is its last, or a time. UTC unless it says otherwise."""
    limits: KeyLimits | None = None
    """How much its holder may ask for. Not set: as auth.limits has it; {}: as much as it likes."""

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
    limits: KeyLimits = KeyLimits()
    """How much the holder of a key without limits of its own may ask for; without any key, all clients together."""
    store: StoreUrl | None = None
    """Where requests and tokens are counted for all workers and replicas together: the URL of a Redis or Valkey
    server. Not set: in the memory of each worker."""
    store_file: StoreUrlFile | None = None
    """A file that holds that URL, which may have a password in it."""
    store_down: Literal["open", "closed"] = "open"
    """What becomes of requests under limits while the store does not answer: let through uncounted, or refused."""
    store_seconds: Seconds = 0.5
    """How long the store may take for one request. After that it counts as down, until it answers a ping."""
    rate_headers: bool = True
    """Tell a client what is left, in x-ratelimit-... headers, where it has limits."""

    @model_validator(mode="after")
    def _one_store(self) -> Self:
        if self.store is not None and self.store_file is not None:
            raise several([("store", "stands beside store_file; keep one")])
        return self

    @model_validator(mode="after")
    def _keys_of_one_name_agree(self) -> Self:
        first: dict[str, int] = {}
        problems: list[Problem] = []
        for index, key in enumerate(self.keys):
            if key.name is None:
                continue
            before = self.keys[first.setdefault(key.name, index)]
            text = (
                f"differs from that of keys[{first[key.name]}], which has the same name; keys of one name are one"
                " holder, so give both the same, or this one another name"
            )
            problems += [
                (f"keys[{index}].{field}", text)
                for field in ("models", "limits")
                if getattr(key, field) != getattr(before, field)
            ]
        if problems:
            raise several(problems)
        return self

    @property
    def store_url(self) -> SecretStr | None:
        """The URL of the store, however it was given."""
        return self.store_file.secret if self.store_file is not None else self.store

    def holders(self) -> list[Holder]:
        """The holder of every key; empty: the proxy is open."""
        found = [
            Holder(
                key.name or f"keys[{index}]",
                key.digest,
                key.expires.timestamp() if key.expires is not None else None,
                f"key:{key.name}" if key.name is not None else _account(key.digest),
                tuple(key.models) if key.models is not None else None,
                key.limits if key.limits is not None else self.limits,
            )
            for index, key in enumerate(self.keys)
        ]
        if self.keys_file is not None:
            for line, secret in self.keys_file.keys:
                digest = _digest(secret)
                found.append(Holder(f"keys_file:{line}", digest, None, _account(digest), None, self.limits))
        return found

    def hashed(self) -> list[tuple[str, bytes]]:
        """Name and SHA-256 digest (32 bytes) of every key; empty: the proxy is open."""
        return [(holder.name, holder.digest) for holder in self.holders()]

    @property
    def has_limits(self) -> bool:
        """Whether anything is counted."""
        limits = [holder.limits for holder in self.holders()] or [self.limits]
        return any(limit != KeyLimits() for limit in limits)


def _account(digest: bytes) -> str:
    """For a key without a name, whose place in the list may change. Told to the store, so hashed once more."""
    return f"sha256:{hashlib.sha256(digest).hexdigest()[:16]}"


def _digest(key: SecretStr) -> bytes:
    return hashlib.sha256(key.get_secret_value().encode()).digest()
