"""An exchange as the rules see it: what kind of answer it is, what it breaks of the dialect, what it says.

Read once for all rules, and tolerantly: whatever a server sends, a reading comes of it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from svir_proxy.conform import dialect
from svir_proxy.conform.dialect import Violation
from svir_proxy.conform.exchange import Exchange, excerpt

COMMIT_AFTER: Final = 5.0
"""Seconds after which the headers of a silent stream are sent, by the dialect."""

Kind = Literal["stream", "completion", "error", "models", "model", "none"]


@dataclass(frozen=True)
class Reading:
    """What a question's *exchange* says."""

    question: str
    exchange: Exchange

    @property
    def request(self) -> dict[str, Any]:
        """The body of the request; empty where it was no object."""
        body = self.exchange.request.body
        return body if isinstance(body, dict) else {}

    @cached_property
    def kind(self) -> Kind:
        """What the answer has to be, by what was asked and the status."""
        request = self.exchange.request
        if self.exchange.refused:
            return "error"
        if not self.exchange.ok or request.leave is not None:
            return "none"
        if request.verb == "POST":
            return "stream" if request.streamed else "completion"
        return "models" if request.path.endswith("/models") else "model"

    @property
    def asks_for_usage(self) -> bool:
        """Whether a streamed request wants the usage chunk."""
        return bool((self.request.get("stream_options") or {}).get("include_usage"))

    @cached_property
    def violations(self) -> list[Violation]:
        """What the body breaks of the dialect."""
        body, named = self.exchange.body, isinstance(self.request.get("tool_choice"), dict)
        match self.kind:
            case "stream":
                return dialect.stream_violations(body, self.asks_for_usage, named_function=named)
            case "completion":
                return dialect.completion_violations(body, named_function=named)
            case "error":
                return dialect.error_violations(body)
            case "models":
                return dialect.models_violations(body)
            case "model":
                return dialect.model_violations(body)
        return []

    @cached_property
    def said(self) -> dict[str, Any]:
        """What an answer says, as `svir_proxy.conform.dialect.summarize` has it."""
        streamed = self.kind == "stream"
        return dialect.summarize(self.exchange.body) if streamed else dialect.summarize_completion(self.exchange.body)

    @property
    def answered(self) -> bool:
        """Whether it is an answer of the model, whole or not."""
        return self.kind in ("stream", "completion") and self.said["error"] is None

    @property
    def calls(self) -> list[dict[str, str]]:
        """The calls of the answer."""
        calls: list[dict[str, str]] = self.said["tool_calls"] if self.answered else []
        return calls

    @property
    def was_cut(self) -> bool:
        """Whether a limit or a filter ended the answer: what it lacks then proves nothing."""
        return self.said["finish_reason"] in ("length", "content_filter")

    @property
    def committed(self) -> bool:
        """Whether a stream failed after so long that its headers may have had to go: the status says nothing then."""
        return self.kind == "stream" and self.exchange.seconds >= COMMIT_AFTER and self.said["error"] is not None

    @property
    def told_unmet(self) -> bool:
        """Whether a note says that a demand was not met: a promise broken openly."""
        return "=unmet" in self.exchange.headers.get("x-svir-rewrites", "")

    @cached_property
    def events(self) -> list[str]:
        """The payloads of a stream, in order."""
        if self.kind != "stream":
            return []
        lines = self.exchange.body.decode("utf-8", "replace").replace("\r", "\n").split("\n")
        return [line[5:].strip() for line in lines if line.startswith("data:")]

    @cached_property
    def chunks(self) -> list[dict[str, Any]]:
        """The JSON objects of a stream that have a choice, in order; an error event is none."""
        return [chunk for chunk in map(_object, self.events) if _choice(chunk) is not None]

    @property
    def choices(self) -> list[dict[str, Any]]:
        """The first choice of each of the chunks."""
        return [choice for choice in map(_choice, self.chunks) if choice is not None]

    @cached_property
    def document(self) -> dict[str, Any]:
        """The body as a JSON object; empty where it is none."""
        return _object(self.exchange.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error of the envelope; empty where there is none in OpenAI's shape."""
        error = self.document.get("error") if self.kind == "error" else self.said["error"]
        return error if isinstance(error, dict) else {}

    def evidence(self, detail: str, where: str = "") -> str:
        """What a report says of a breach: the question, the detail, and on a line of its own a piece of the answer."""
        place = f"{self.question}: {where}: " if where else f"{self.question}: "
        quoted = [word for word in re.findall(r"'([^']+)'", detail) if word.encode() in self.exchange.body]
        piece = excerpt(self._piece(where), *quoted[:1])
        return place + detail + (f"\n{piece}" if piece else "")

    def _piece(self, where: str) -> str | bytes:
        number = where.removeprefix("event ")
        if self.kind == "stream" and number.isdigit() and 0 < int(number) <= len(self.events):
            return f"data: {self.events[int(number) - 1]}"
        if self.kind == "stream" and where == "end":
            return "\n".join(self.events[-2:])
        return self.exchange.body


def _object(text: str | bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _choice(chunk: dict[str, Any]) -> dict[str, Any] | None:
    choices = chunk.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else None
