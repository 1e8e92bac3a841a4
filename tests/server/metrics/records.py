"""Requests as they are when they are over."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from svir_proxy.server.request_record import RequestRecord


@dataclass
class Answered:
    """An answer: first and last output in seconds after the request, tokens as ``(prompt, output)``."""

    first: float | None = None
    last: float | None = None
    tokens: tuple[int, int] | None = None
    has_reasoning: bool = False
    details: dict[str, Any] = field(default_factory=dict)
    began: float = 0.0
    pieces = 0
    finish_reason = "stop"

    @property
    def first_output(self) -> float | None:
        return None if self.first is None else self.began + self.first

    @property
    def last_output(self) -> float | None:
        return None if self.last is None else self.began + self.last

    @property
    def usage(self) -> dict[str, Any] | None:
        if self.tokens is None:
            return None
        prompt, output = self.tokens
        return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output, **self.details}


def record(**more: Any) -> RequestRecord:
    """A chat request of the model ``m`` to the backend ``b`` that began a moment ago and went well."""
    made = RequestRecord("r", "POST", "/v1/chat/completions", model="m", backend="b", status=200)
    for name, value in more.items():
        setattr(made, name, value)
    if "began" not in more:
        made.began = time.perf_counter()
    if isinstance(made.answer, Answered):
        made.answer.began = made.began
    return made
