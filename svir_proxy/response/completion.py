"""Canonical events to one ``chat.completion``."""

from __future__ import annotations

from typing import Any

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.response.chunk_reader import made_up_id
from svir_proxy.response.events import (
    ArgumentsDelta,
    ContentDelta,
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

    def __init__(self, request: ClientRequest) -> None:
        self._identity = Identified(made_up_id(request), request.received, request.model or "unknown")
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[tuple[ToolCallStarted, list[str]]] = []
        self._logprobs: list[LogprobsReported] = []
        self._reason = "stop"
        self._usage: dict[str, Any] | None = None
        self._extras: dict[str, Any] = {}
        self.error: ProxyError | None = None

    def feed(self, event: Event) -> None:
        """Take the next event."""
        match event:
            case ContentDelta(text):
                self._content.append(text)
            case ReasoningDelta(text):
                self._reasoning.append(text)
            case RefusalDelta(text):
                self._refusal.append(text)
            case ToolCallStarted():
                self._calls.append((event, []))
            case ArgumentsDelta(index, text):
                self._calls[index][1].append(text)
            case LogprobsReported():
                self._logprobs.append(event)
            case ExtrasReported(values):
                self._extras |= values
            case Identified():
                self._identity = event
            case Finished(reason):
                self._reason = reason
            case UsageReported(usage):
                self._usage = usage
            case Failed(error):
                self.error = error
            case _:
                pass

    def completion(self) -> dict[str, Any]:
        """The answer as a ``chat.completion`` object."""
        identity = self._identity
        logprobs = joined_logprobs(self._logprobs) if self._logprobs else None
        answer: dict[str, Any] = {
            "id": identity.id,
            "object": "chat.completion",
            "created": identity.created,
            "model": identity.model,
            "choices": [{"index": 0, "message": self._message(), "logprobs": logprobs, "finish_reason": self._reason}],
        }
        if self._usage is not None:
            answer["usage"] = self._usage
        if identity.system_fingerprint is not None:
            answer["system_fingerprint"] = identity.system_fingerprint
        if identity.service_tier is not None:
            answer["service_tier"] = identity.service_tier
        if self._extras:
            answer["svir"] = self._extras
        return answer

    def _message(self) -> dict[str, Any]:
        content = "".join(self._content)
        refusal = "".join(self._refusal)
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if not content and (self._calls or refusal) else content,
            "refusal": refusal or None,
        }
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        if self._calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": "".join(arguments)}}
                for call, arguments in self._calls
            ]
        return message
