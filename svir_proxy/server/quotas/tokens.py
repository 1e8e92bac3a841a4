"""How many tokens a request took: as the server reported them, else about as many as its bytes and pieces tell.

A client could leave before the report, which comes last, or ask a server that makes none. So what came is counted as it
comes: of text a token for every four characters or for every piece, whichever are more, since a stream has a piece for
a token or a few; and of the request a token for every four bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from svir_proxy.response.events import Event, UsageReported
from svir_proxy.server.answer import Answer, InFront

_PER_TOKEN: Final = 4
"""Bytes or characters: what tokenizers come to in English, and most other text in UTF-8."""
_PER_MEDIUM: Final = 1000
"""Tokens of an image, or any other medium in a request, which its bytes say nothing about."""


class Meter:
    """Counts what one request takes. *size*: bytes of the request's text; *media*: pictures and the like beside it."""

    def __init__(self, size: int = 0, media: int = 0) -> None:
        self.prompt = of_text(size) + media * _PER_MEDIUM
        """About how many tokens the request has."""
        self.asked = False
        """Whether any server was asked."""
        self.reported: dict[str, Any] | None = None
        """The last usage that a server reported, also of an answer that was never let out."""
        self._characters = self._pieces = 0

    def take(self, events: Sequence[Event]) -> None:
        """Count *events* of an answer."""
        for event in events:
            text = getattr(event, "text", "")
            if text:
                self._pieces += 1
                self._characters += len(text)
            elif isinstance(event, UsageReported):
                self.reported = event.usage

    def add(self, pieces: int, characters: int = 0) -> None:
        """Count so much of an answer that is not read as events."""
        self._pieces += pieces
        self._characters += characters

    def tokens(self, usage: dict[str, Any] | None, *, failed: bool) -> int:
        """All tokens. *usage*: as the client's answer has it; *failed*: that the server gave an error in its place.

        A request that failed before any of the answer came took none.
        """
        usage = usage or self.reported
        if usage is not None:
            return int(usage["total_tokens"])
        if not self.asked or (failed and not self._pieces):
            return 0
        return self.prompt + max(self._pieces, of_text(self._characters))


def of_text(size: int) -> int:
    """About how many tokens a text of *size* bytes or characters has."""
    return -(-size // _PER_TOKEN)


class Metered(InFront[Answer]):
    """An answer that *meter* counts on its way into another one."""

    def __init__(self, answer: Answer, meter: Meter) -> None:
        super().__init__(answer)
        self._meter = meter

    def take(self, events: Sequence[Event]) -> None:
        """Count *events* and hand them on."""
        self._meter.take(events)
        self._answer.take(events)
