"""What is common to the kinds of bodies: where the field stands, and what it says."""

from __future__ import annotations

from typing import Final, Protocol

from svir_proxy.errors import ProxyError

MAX_MODEL: Final = 4096
"""Bytes of a model's name."""


class ModelField(Protocol):
    """Follows one body from its first byte to its last."""

    model: str
    """What the field says; ``""`` until it was seen, and where it says nothing."""
    span: tuple[int, int] | None
    """The bytes of the field's value, counted from the beginning of the body; None until it was seen whole."""

    def feed(self, data: bytes) -> None:
        """Take the next piece; raises ProxyError where the body is none that can be passed on."""

    def end(self) -> None:
        """The body has ended; raises ProxyError where it is not whole."""

    def written(self, model: str) -> bytes:
        """*model* as the value's bytes would be."""


def said_twice() -> ProxyError:
    """The error for a body with more than one model: servers differ in which of them counts."""
    return ProxyError("invalid_request", "The request has more than one 'model'; name one.", param="model")


def too_long() -> ProxyError:
    """The error for a model's name that is none."""
    return ProxyError("invalid_request", f"'model' is longer than {MAX_MODEL} bytes.", param="model")
