"""What is known of a server while it is asked: what to ask it with, and its answers so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from svir_proxy.conform.exchange import Exchange
from svir_proxy.conform.reading import Reading

PROMPTS: Final[Mapping[str, str]] = {
    "text": "Say in one short sentence what a proxy server does.",
    "length": "Count from one to one hundred in words.",
    "think": "What is 17 times 23? Think it over.",
    "tools": "Open locker 7. Call the function open_locker.",
    "calls": "Open locker 1, and get the weather of Oslo for 3 days. Call both functions at once.",
    "json": 'Write one JSON object with the keys "city" (a text) and "days" (a whole number), and nothing else.',
}
"""What the model is asked for, by purpose. Models that want other words get them with ``--prompt``."""


@dataclass
class Interview:
    """An interview under way.

    Attributes:
        model: The model that is asked for.
        context: How many tokens its context has; None: not known, and no question is made too long for it.
        keyed: The server was given a key, so it may have to refuse a wrong one.
        prompts: `PROMPTS`, with the operator's own.
        max_tokens: The limit of an answer, where the question is not about limits.
        readings: The answers, by the question's name.
        unasked: Why the other questions were not asked.
    """

    model: str
    context: int | None = None
    keyed: bool = False
    prompts: Mapping[str, str] = field(default_factory=lambda: PROMPTS)
    max_tokens: int = 400
    readings: dict[str, Reading] = field(default_factory=dict)
    unasked: dict[str, str] = field(default_factory=dict)

    def take(self, question: str, exchange: Exchange) -> None:
        """Notes an answer."""
        self.readings[question] = Reading(question, exchange)
