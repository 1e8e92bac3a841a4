"""What a server may make the transport hold, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Bounds of one transport. The defaults suit local model servers."""

    head_bytes: int = 64 * 1024
    """Of a response head, with the interim (1xx) heads before it; of trailers too. Bytes."""

    headers: int = 256
    """Header fields of one response head."""

    body_buffer: int = 256 * 1024
    """Unread bytes of a body above which the socket is no longer read. One read more may be held."""

    idle_seconds: float = 3.0
    """How long an unused connection is kept: 2 s less than the 5 s of uvicorn, llama.cpp and most others, so that
    a request is not written to a connection that the server is closing at that moment."""

    retry_seconds: float = 2.0
    """How soon a kept connection ends where its server had closed it before the request: one that ends later has a
    server that read the request, worked at it and failed, which would fail once more."""

    idle_connections: int = 256
    """Unused connections kept for one origin; beyond it the longest unused one is closed."""
