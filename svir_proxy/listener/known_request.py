"""A request like one that came before on its connection, read without a parser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from svir_proxy.known_head import KnownHead

if TYPE_CHECKING:
    from starlette.types import Scope

_LENGTH: Final = b"content-length"


class KnownRequest:
    """What the parser made of a head, for requests that have the same."""

    __slots__ = ("_head", "_headers", "_length_at", "_scope")

    def __init__(self, head: KnownHead, scope: Scope) -> None:
        self._head = head
        self._scope: dict[str, Any] = dict(scope)
        self._headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        self._length_at = next(at for at, (name, _) in enumerate(self._headers) if name == _LENGTH)

    @classmethod
    def of(cls, data: bytes, body: bytes, scope: Scope) -> Self | None:
        """What there is to know of the request *data*, which was read as *scope* and *body*; None: it is not usual."""
        head = KnownHead.of(data, body)
        return None if head is None else cls(head, scope)

    def read(self, data: bytes) -> tuple[Scope, bytes] | None:
        """Scope and body of the request that *data* is, where it is all of one and has the same head; else None."""
        body = self._head.body_of(data)
        if body is None:
            return None
        headers = self._headers.copy()
        headers[self._length_at] = (_LENGTH, b"%d" % len(body))
        scope = self._scope.copy()
        scope["headers"] = headers
        return scope, body
