"""Canonical events to one ``chat.completion``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.response.chunk_reader import made_up_identity
from svir_proxy.response.events import (
    ArgumentsDelta,
    ContentDelta,
    Ended,
    Event,
    ExtrasReported,
    Failed,
    Finished,
    Identified,
    LogprobsReported,
    ReasoningDelta,
    RefusalDelta,
    ToolCallStarted,
    UsageReported,
)
from svir_proxy.response.logprobs import joined_logprobs


class CompletionFolder:
    """Gathers one answer; `completion` once the answer has ended, `error` when it failed."""

    __slots__ = (
        *("_calls", "_content", "_extras", "_identity", "_logprobs", "_reasoning", "_refusal", "_request"),
        *("error", "finish_reason", "usage"),
    )

    def __init__(self, request: ClientRequest) -> None:
        self._request = request
        self._identity: Identified | None = None
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[tuple[ToolCallStarted, list[str]]] = []
        self._logprobs: list[LogprobsReported] = []
        self.finish_reason: str | None = None
        """Why the answer ended, once it has."""
        self.usage: dict[str, Any] | None = None
        """The token counts."""
        self._extras: dict[str, Any] = {}
        self.error: ProxyError | None = None

    def feed(self, event: Event) -> None:
        """Take the next event."""
        self.take((event,))

    def take(self, events: Iterable[Event]) -> None:
        """Take the next *events*."""
        for event in events:  # what every answer has comes first
            if type(event) is ContentDelta:
                self._content.append(event.text)
            elif type(event) is Identified:
                self._identity = event
            elif type(event) is Finished:
                self.finish_reason = event.reason
            elif type(event) is UsageReported:
                self.usage = event.usage
            elif type(event) is Ended:
                break
            elif type(event) is ReasoningDelta:
                self._reasoning.append(event.text)
            elif type(event) is ArgumentsDelta:
                self._calls[event.index][1].append(event.text)
            elif type(event) is ToolCallStarted:
                self._calls.append((event, []))
            elif type(event) is RefusalDelta:
                self._refusal.append(event.text)
            elif type(event) is LogprobsReported:
                self._logprobs.append(event)
            elif type(event) is ExtrasReported:
                self._extras |= event.values
            elif type(event) is Failed:
                self.error = event.error

    def completion(self) -> dict[str, Any]:
        """The answer as a ``chat.completion`` object."""
        identity = self._identity or made_up_identity(self._request)
        content = "".join(self._content)
        refusal = "".join(self._refusal) if self._refusal else None
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if not content and (self._calls or refusal) else content,
            "refusal": refusal,
        }
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        if self._calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": "".join(arguments)}}
                for call, arguments in self._calls
            ]
        choice = {
            "index": 0,
            "message": message,
            "logprobs": joined_logprobs(self._logprobs) if self._logprobs else None,
            "finish_reason": self.finish_reason or "stop",
        }
        answer: dict[str, Any] = {
            "id": identity.id,
            "object": "chat.completion",
            "created": identity.created,
            "model": identity.model,
            "choices": [choice],
        }
        if self.usage is not None:
            answer["usage"] = self.usage
        if identity.system_fingerprint is not None:
            answer["system_fingerprint"] = identity.system_fingerprint
        if identity.service_tier is not None:
            answer["service_tier"] = identity.service_tier
        if self._extras:
            answer["svir"] = self._extras
        return answer
