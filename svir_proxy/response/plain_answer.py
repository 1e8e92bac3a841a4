"""A whole answer with nothing odd about it, read in one look.

Text, reasoning under a key, a finish reason in OpenAI's words, and counts: no stage would change anything in it, so it
passes by them all.
Whatever is or may be otherwise is left to them; what is read here, they would read the same.
"""

from __future__ import annotations

from typing import Any, Final, TypeGuard

from svir_proxy.client_request import ClientRequest
from svir_proxy.profiles.schema import Profile
from svir_proxy.response.chunk_reader import identity
from svir_proxy.response.events import ContentDelta, Ended, Event, Finished, ReasoningDelta, UsageReported
from svir_proxy.response.json_text import has_surrogates
from svir_proxy.response.stages.think_tags import may_hold_marker
from svir_proxy.response.usage import read_usage

_REASONS: Final = ("stop", "length")
_TELLING: Final = frozenset({"error", "x_groq", "prompt_filter_results", "prompt_annotations"})
"""What is looked into beside the choices and the counts."""
_CHOICE: Final = frozenset({"index", "message", "finish_reason", "logprobs", "stop_reason", "token_ids"})
_EMPTY: Final = ("refusal", "tool_calls", "function_call")
_MESSAGE: Final = frozenset({"role", "content", "reasoning_content", "reasoning", "annotations", "audio", *_EMPTY})
"""What a choice and a message may hold: what is read, what nobody reads, and keys that must say nothing."""


def read_plain(answer: Any, request: ClientRequest, profile: Profile) -> list[Event] | None:
    """The events of *answer*; None where it has to be looked at closely, by itself or for what was asked."""
    if type(answer) is not dict or not _TELLING.isdisjoint(answer):
        return None
    if request.tool_names or profile.response.reasoning == "think_tags_preopened":
        return None
    choices = answer.get("choices")
    if type(choices) is not list or len(choices) != 1:
        return None
    choice = choices[0]
    if type(choice) is not dict or not choice.keys() <= _CHOICE or choice.get("logprobs"):
        return None
    if choice.get("index") not in (0, None):
        return None
    message, reason = choice.get("message"), choice.get("finish_reason")
    if type(message) is not dict or not message.keys() <= _MESSAGE or reason not in _REASONS:
        return None
    for key in _EMPTY:
        if message.get(key):
            return None
    content = message.get("content")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if not _is_text(content) or (not _is_text(reasoning) if reasoning else may_hold_marker(content)):
        return None
    events: list[Event] = [identity(answer, request)]
    if reasoning:
        events.append(ReasoningDelta(reasoning))
    events += (ContentDelta(content), Finished(reason))
    if usage := read_usage(answer.get("usage")):
        events.append(UsageReported(usage))
    events.append(Ended())
    return events


def _is_text(value: Any) -> TypeGuard[str]:
    return type(value) is str and value != "" and (value.isascii() or not has_surrogates(value))
