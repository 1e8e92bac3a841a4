"""Why the answer ended, decided when it has ended, whether it holds a demanded call, and its token counts.

A finish reason can be missing, empty, early, repeated or in another vocabulary, and Azure can block an answer after its
``stop``: so it is held until the stream's end, as is the usage, of which the last report counts.
"""

from __future__ import annotations

from typing import Final

from svir_proxy.response.events import (
    Ended,
    FilterVerdict,
    Finished,
    Noted,
    StageEvent,
    ToolCallStarted,
    UsageReported,
)
from svir_proxy.response.stages.stage import Sink

_WORDS: Final = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
    "safety": "content_filter",
    "prohibited_content": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "spii": "content_filter",
}
_STRENGTH: Final = {"stop": 0, "tool_calls": 1, "length": 2, "content_filter": 3}


def canonical_reason(word: str) -> str:
    """A server's finish reason in the canonical vocabulary; a word nobody knows is a ``stop``."""
    return _WORDS.get(word.lower(), "stop")


class Finish:
    """Holds finish and usage to the end.

    *named_tool* is the function the request named, if it named one. *demand* is its ``tool_choice``, ``required`` or
    ``named``, where it offers tools and insists on a call. An answer without that call is told: also servers that keep
    the demand break it, where the chat template knows no tools or where the thinking never ends.
    """

    __slots__ = ("_all_named", "_calls", "_demand", "_named_tool", "_reason", "_sink", "_usage", "seen")

    def __init__(self, sink: Sink, *, named_tool: str | None, demand: str | None = None) -> None:
        self._sink = sink
        self._named_tool = named_tool
        self._demand = demand
        self._reason = "stop"
        self._calls = False
        self._all_named = True
        self._usage: UsageReported | None = None
        self.seen = False
        """Whether the server gave any reason."""

    def feed(self, event: StageEvent) -> None:
        """Take the next event."""
        if type(event) is Finished:
            self.seen = True
            self._take(canonical_reason(event.reason))
        elif type(event) is FilterVerdict:
            self._take("content_filter")
        elif type(event) is UsageReported:
            self._usage = event
        elif type(event) is Ended:
            if self._demand is not None and not self._is_met():
                self._sink(Noted(f"tool_choice.{self._demand}=unmet"))
            self._sink(Finished(self._decide()))
            if self._usage is not None:
                self._sink(self._usage)
            self._sink(event)
        else:
            if type(event) is ToolCallStarted:
                self._calls = True
                self._all_named = self._all_named and event.name == self._named_tool
            self._sink(event)

    def _take(self, reason: str) -> None:
        if _STRENGTH[reason] > _STRENGTH[self._reason]:
            self._reason = reason

    def _is_met(self) -> bool:
        return self._calls and (self._all_named or self._demand != "named")

    def _decide(self) -> str:
        if self._reason in ("length", "content_filter"):
            return self._reason
        if self._calls:
            return "stop" if self._all_named else "tool_calls"
        return "stop"
