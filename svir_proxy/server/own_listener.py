"""What the proxy's own listener does beside ASGI, for those who can do with less than ASGI's messages.

Each method says whether it did; where it did not, ASGI's way is there for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from starlette.types import Receive, Send

Fields = Iterable[tuple[bytes, bytes]]


class Listener(Protocol):
    """One request and its answer, as `svir_proxy.listener` has them. ``receive`` and ``send`` are its own methods.

    They are coroutines that need no task to run in, and may be driven by hand.
    """

    def whole_body(self) -> bytes | bytearray | None:
        """The request's body, where all of it is at hand and nobody has had any of it."""

    def write_whole(self, status: int, headers: Fields, body: bytes) -> bool:
        """Write a whole answer."""

    def write_start(self, status: int, headers: Fields) -> bool:
        """Begin an answer."""

    def write_piece(self, body: bytes) -> bool:
        """Write a piece of an answer that goes on."""

    def stream_head(self, status: int, headers: Fields) -> bytes:
        """The head of a stream that may begin later; ``b""``: it cannot be told before."""

    def write_opening(self, head: bytes, body: bytes) -> bool:
        """Begin an answer with such a *head*, and its first piece."""


def listener_of(call: Receive | Send) -> Listener | None:
    """The listener whose ``receive`` or ``send`` this is; None for another server's.

    It is asked of *call* itself, so that whatever stands between the application and the listener is not passed over.
    """
    found: Listener | None = getattr(call, "__self__", None)
    return found if hasattr(found, "write_piece") else None
