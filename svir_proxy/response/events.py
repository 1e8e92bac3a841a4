"""The canonical events: what an answer says, whatever server said it.

Events are matched by type, never subclassed, and never changed once they are made. Text of one kind may come in any
number of pieces; put together they are the text to the byte.
"""

from __future__ import annotations

from typing import Any

from svir_proxy.errors import ProxyError
from svir_proxy.values import value


@value
class Identified:
    """The answer's identity, from the first chunk that has one; at most once, before anything else."""

    id: str
    created: int
    """Unix time in seconds."""
    model: str
    system_fingerprint: str | None = None
    service_tier: str | None = None


@value
class ReasoningDelta:
    """A piece of the model's reasoning; never empty."""

    text: str


@value
class ContentDelta:
    """A piece of the answer's text; never empty."""

    text: str


@value
class RefusalDelta:
    """A piece of the model's refusal; never empty."""

    text: str


@value
class ToolCallStarted:
    """A call begins: its index in the answer, from 0, its unique id and its whole name."""

    index: int
    id: str
    name: str


@value
class ArgumentsDelta:
    """A piece of the arguments of the call that started last; never empty."""

    index: int
    text: str


@value
class LogprobsReported:
    """Token probabilities in OpenAI's shape, for the text that comes next."""

    content: list[dict[str, Any]] | None
    refusal: list[dict[str, Any]] | None


@value
class ExtrasReported:
    """What a server said outside of the protocol (timings, filter results, ...), where a backend exposes it."""

    values: dict[str, Any]


@value
class UsageReported:
    """Token counts in OpenAI's shape: ``prompt_tokens``, ``completion_tokens``, ``total_tokens`` and details."""

    usage: dict[str, Any]


@value
class Noted:
    """Something about the answer that was repaired or is odd; for the log and the notes, not for the answer."""

    note: str


@value
class Finished:
    """Why the answer ended; leaving the core it is one of ``stop``, ``length``, ``tool_calls``, ``content_filter``."""

    reason: str


@value
class Failed:
    """The answer failed; nothing follows."""

    error: ProxyError


@value
class Ended:
    """The answer is complete; nothing follows."""


@value
class ToolCallPiece:
    """Internal to the stages: a piece of a structured call as the server cut it.

    Attributes:
        index: The server's index, None where it sent none.
        id: The server's id, ``""`` where it sent none.
        name: A piece of the name, ``""`` where it sent none.
        arguments: A piece of the arguments, ``""`` where it sent none.
        whole: The arguments came as one JSON value and are complete.
        extra: What the server demands back with the call (Gemini's ``extra_content``); None: nothing.
    """

    index: int | None
    id: str
    name: str
    arguments: str
    whole: bool = False
    extra: Any = None


@value
class FilterVerdict:
    """Internal to the stages: a content filter blocked the prompt or the answer."""


Output = ReasoningDelta | ContentDelta | RefusalDelta | ToolCallStarted | ArgumentsDelta
"""What a client can see of an answer before it ends."""

Event = Identified | Output | LogprobsReported | ExtrasReported | UsageReported | Noted | Finished | Failed | Ended
"""What leaves the core."""

StageEvent = Event | ToolCallPiece | FilterVerdict
"""What the stages hand on."""
