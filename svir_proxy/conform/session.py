"""An interview from its first question to its last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from svir_proxy.conform.exchange import Exchange, Request
from svir_proxy.conform.interview import Interview
from svir_proxy.conform.questions import QUESTIONS
from svir_proxy.conform.reading import Reading

Ask = Callable[[Request], Exchange]
Tell = Callable[[int, int, str], None]
"""Told before each question: its number from 1, how many there are, its name."""

_NO_CHAT: Final = (
    "embed", "rerank", "bge", "clip", "whisper", "tts", "asr", "speech", "audio", "image", "flux", "sdxl", "diffusion",
)  # fmt: skip
"""What is in the names of models that do not chat; there is no better sign."""


PATIENCE: Final = 3
"""Questions in a row without any answer, after which nobody is there."""


def hold(interview: Interview, ask: Ask, tell: Tell = lambda *_: None) -> None:
    """Asks every question that can be asked, while the server answers."""
    unanswered = 0
    for number, question in enumerate(QUESTIONS, 1):
        tell(number, len(QUESTIONS), question.name)
        request = question.make(interview)
        if isinstance(request, str):
            interview.unasked[question.name] = request
        else:
            exchange = ask(request)
            interview.take(question.name, exchange)
            unanswered = unanswered + 1 if exchange.status is None else 0
            if unanswered == PATIENCE:
                leave_out_the_rest(interview, f"the server answers no more ({exchange.failure})")
                return


def leave_out_the_rest(interview: Interview, why: str) -> None:
    """Notes of all questions that were not asked yet that they are not."""
    for question in QUESTIONS:
        if question.name not in interview.readings:
            interview.unasked.setdefault(question.name, why)


def chat_models(listed: Exchange) -> Sequence[str]:
    """The ids of a model list, those first that look as if they chat; whatever *listed* is."""
    data = Reading("models", listed).document.get("data")
    ids = [entry.get("id") for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    names = [name for name in ids if isinstance(name, str) and name]
    return sorted(names, key=lambda name: any(word in name.lower() for word in _NO_CHAT))
