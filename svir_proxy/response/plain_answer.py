"""A whole answer with nothing odd about it, read in one look.

Text, reasoning under a key, a finish reason in OpenAI's words, and counts: no stage would change anything in it, so it
passes by them all.
Whatever is or may be otherwise is left to them; what is read here, they would read the same.
"""

from __future__ import annotations

from typing import Any, Final

from svir_proxy.client_request import ClientRequest
from svir_proxy.profiles.schema import Profile
from svir_proxy.response.chunk_reader import identity
from svir_proxy.response.events import ContentDelta, Ended, Event, Finished, ReasoningDelta, UsageReported
from svir_proxy.response.json_text import has_surrogates
from svir_proxy.response.usage import read_usage

_FINISHED: Final = {reason: Finished(reason) for reason in ("stop", "length")}
_ENDED: Final = Ended()
_TELLING: Final = frozenset({"error", "x_groq", "prompt_filter_results", "prompt_annotations"})
"""What is looked into beside the choices and the counts."""
_CHOICE: Final = frozenset({"index", "message", "finish_reason", "logprobs", "stop_reason", "token_ids"})
_MESSAGE: Final = frozenset({"role", "content", "reasoning_content", "reasoning", "annotations", "audio"})
"""What a choice may hold, and what a message may say: what is read, and what nobody reads."""


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
    if type(message) is not dict or type(reason) is not str or reason not in _FINISHED:
        return None
    for key, value in message.items():
        if value and key not in _MESSAGE:
            return None
    content: Any = message.get("content")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    texts = (reasoning, content) if reasoning else (content,)
    for text in texts:
        if type(text) is not str or not text or not (text.isascii() or not has_surrogates(text)):
            return None
    if not reasoning and ("<" in content or "[" in content):
        return None  # it may hold a marker: see `ThinkTags`
    events: list[Event] = [identity(answer, request)]
    if reasoning:
        events.append(ReasoningDelta(reasoning))
    events += (ContentDelta(content), _FINISHED[reason])
    if usage := read_usage(answer.get("usage")):
        events.append(UsageReported(usage))
    events.append(_ENDED)
    return events
