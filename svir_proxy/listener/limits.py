"""What a client's connection may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Bounds of one connection. Seconds unless it says bytes."""

    connections: int = 4096
    """Open at once; one more is told to come back, and closed."""
    heard: int = 8192
    """Open at once, those that are to be told among them, as long as they say nothing; one more is closed unheard."""
    head_bytes: int = 64 * 1024
    """Bytes that may come without completing a head or adding to a body. One read more may be held."""
    body_buffer: int = 64 * 1024
    """Bytes of a body that wait for the application before reading rests."""
    idle: float = 75.0
    """Between requests, and before the first."""
    head: float = 30.0
    """From a head's first byte to its last."""
    body: float = 60.0
    """Between two pieces of a request's body."""
    write: float = 120.0
    """How long a client may take nothing of its answer."""

    @property
    def shortest(self) -> float:
        """The least of the limits of time."""
        return min(self.idle, self.head, self.body, self.write)
