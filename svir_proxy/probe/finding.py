"""What was learned of one fact, and what a dialogue says when it cannot go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact of the server.

    Attributes:
        fact: Its dotted path in a profile (``request.tool_choice.named``); for what no profile says, a word.
        value: What a profile would say; ``unknown``: it does not show.
        evidence: What was asked and what came, for people.
    """

    fact: str
    value: Any
    evidence: str

    @property
    def is_fact(self) -> bool:
        """Whether a profile has a place for it."""
        return "." in self.fact

    @property
    def known(self) -> bool:
        """Whether anything was learned."""
        return bool(self.value != UNKNOWN)


class NoAnswer(Exception):  # noqa: N818 - a turn of the interview, not an error of the program
    """What was asked got no answer that could be judged, however often; the dialogue is over.

    Attributes:
        kind: The proxy's name for the last failure; None: the server said nothing.
    """

    def __init__(self, words: str, kind: str | None = None) -> None:
        super().__init__(words)
        self.kind = kind


class OutOfLimits(Exception):  # noqa: N818 - as above
    """The time or the tokens that the interview may take are spent."""


class NotInterviewed(Exception):  # noqa: N818 - as above
    """The server could not be asked at all; the text says why and what to do."""
