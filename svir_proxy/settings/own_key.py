"""A key of its own for a part of the proxy that the clients' keys do not open."""

from __future__ import annotations

import hashlib
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from svir_proxy.settings.auth import hex_digest
from svir_proxy.settings.fields import KeyFile, OptionalKey, Section, empty_is_unset


class OwnKey(Section):
    """At most one of ``key``, ``key_file`` and ``sha256``."""

    key: OptionalKey = None
    """The key itself; better as ${NAME} than written out. Empty is none."""
    key_file: KeyFile | None = None
    """A file that holds the key."""
    sha256: Annotated[
        Annotated[str, AfterValidator(hex_digest)] | None, BeforeValidator(empty_is_unset), Field(repr=False)
    ] = None
    """The SHA-256 of the key in hex, for a configuration that holds no secret."""

    @model_validator(mode="after")
    def _at_most_one(self) -> Self:
        given = [name for name in ("key", "key_file", "sha256") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"has {' and '.join(given)}; keep one")
        return self

    @property
    def digest(self) -> bytes | None:
        """The SHA-256 of the key, 32 bytes; None: there is none."""
        if self.sha256 is not None:
            return bytes.fromhex(self.sha256)
        secret = self.key_file.secret if self.key_file is not None else self.key
        return None if secret is None else hashlib.sha256(secret.get_secret_value().encode()).digest()
