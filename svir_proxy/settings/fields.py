"""What the parts of the settings are made of: the base model, and types with checks of their own."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    SecretStr,
    WithJsonSchema,
    model_validator,
)

_SIZE: Final = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?")
_UNITS: Final = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_STORES: Final = ("redis", "rediss", "valkey", "valkeys")
_TOKEN: Final = re.compile(r"[!-~]+")


class Section(BaseModel):
    """A part of the settings: frozen, and a key that it does not know is refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _leave_out_unset(cls, data: Any) -> Any:
        return leave_out_unset(cls, data)


def leave_out_unset(model: type[BaseModel], data: Any) -> Any:
    """*data* without the settings of *model* that are null: a key with every line below it commented out is null."""
    if not isinstance(data, dict):
        return data
    return {key: value for key, value in data.items() if value is not None or key not in model.model_fields}


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A mounted file that holds one secret, read when the settings are."""

    path: Path
    secret: SecretStr


def read_text(path: Path) -> str:
    """The text of a file; ValueError where there is none."""
    try:
        return path.read_text("utf-8")
    except OSError as exc:
        raise ValueError(f"{path} cannot be read ({exc.strerror}); check the path and the permissions") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no UTF-8 text") from None


def check_token(value: str) -> str:
    """A key as it goes into a header; ValueError where it cannot."""
    if not _TOKEN.fullmatch(value):
        raise ValueError("is empty or holds a space, a line break or a letter outside ASCII; no header can carry it")
    return value


def _secret_file(value: Any) -> Any:
    if isinstance(value, SecretFile):
        return value
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError("must be the path of a file")
    path = Path(value)
    try:
        secret = check_token(read_text(path).strip())
    except ValueError as exc:
        text = str(exc)
        raise ValueError(text if text.startswith(str(path)) else f"{path} {text}") from None
    return SecretFile(path, SecretStr(secret))


def _key(value: SecretStr) -> SecretStr:
    check_token(value.get_secret_value())
    return value


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("must be of letters, digits, dots, dashes and underscores")
    return value


def empty_is_unset(value: Any) -> Any:
    """The empty string, as an unset variable leaves it in a compose file, is none."""
    return None if value == "" else value


def _bytes(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    size = _SIZE.fullmatch(value.strip())
    if size is None:
        raise ValueError("must be a number of bytes, such as 33554432 or 32MiB")
    return int(size[1]) * _UNITS[size[2] or "B"]


def _pem_file(path: Path) -> Path:
    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise ValueError(f"{path} holds no certificate in PEM form") from None
    except OSError as exc:
        raise ValueError(f"{path} cannot be read ({exc.strerror}); check the path and the permissions") from None
    return path


def _expiry(value: Any) -> datetime:
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                value = None
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime.combine(value, time.max, UTC)
    raise ValueError("must be a day such as 2027-01-31, or a time such as 2027-01-31T18:00:00Z")


def _store_url(value: SecretStr) -> SecretStr:
    """The URL of a store, as the one client library has it that speaks to both kinds of server."""
    try:
        parts = urlsplit(value.get_secret_value())
        fits = parts.scheme in _STORES and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number
        fits = False
    if not fits:
        raise ValueError(f"must be a URL such as redis://host:6379/0; the schemes are {', '.join(_STORES)}")
    if find_spec("redis") is None:
        raise ValueError("needs a package that is not installed; pip install 'svir-proxy[redis]'")
    # Imported here: a third of a second, which only those pay who have a store.
    from redis.asyncio import ConnectionPool  # noqa: PLC0415 see above

    url = parts._replace(scheme=parts.scheme.replace("valkey", "redis")).geturl()
    try:
        pool: Any = ConnectionPool.from_url(url)
        pool.make_connection()  # nothing is connected by it
    except (TypeError, ValueError):
        raise ValueError("has something behind the ? that redis-py does not know; leave it out") from None
    return SecretStr(url)


def _store_url_file(value: Any) -> SecretFile:
    file: SecretFile = _secret_file(value)
    try:
        return SecretFile(file.path, _store_url(file.secret))
    except ValueError as exc:
        raise ValueError(f"{file.path}: what it holds {exc}") from None


Name = Annotated[str, AfterValidator(_name), Field(json_schema_extra={"pattern": f"^{_NAME.pattern}$"})]
"""A name that can go into a header, a metric and a log line."""

Key = Annotated[SecretStr, AfterValidator(_key)]
"""A secret that can go into a header."""

OptionalKey = Annotated[Key | None, BeforeValidator(empty_is_unset)]
"""A key; the empty string, as an unset variable leaves it in a compose file, is none."""

KeyFile = Annotated[SecretFile, PlainValidator(_secret_file), WithJsonSchema({"type": "string"})]
"""The path of a file with one key in it."""

Expiry = Annotated[datetime, PlainValidator(_expiry), WithJsonSchema({"type": "string", "examples": ["2027-01-31"]})]
"""The moment from which on something is over; a day alone is over with its end."""

StoreUrl = Annotated[SecretStr, AfterValidator(_store_url)]
"""The URL of a Redis or Valkey server; a secret, since it may hold a password."""

StoreUrlFile = Annotated[SecretFile, PlainValidator(_store_url_file), WithJsonSchema({"type": "string"})]
"""The path of a file with such a URL in it."""

Seconds = Annotated[float, Field(gt=0)]

PemFile = Annotated[Path, AfterValidator(_pem_file)]

Bytes = Annotated[
    int,
    BeforeValidator(_bytes),
    Field(gt=0),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "examples": ["32MiB"]}]}),
]
"""A number of bytes, or a text such as ``32MiB``."""
