"""What the model thinks, apart from what it says. Shown by models that think."""

from __future__ import annotations

from typing import Any, Final

from svir_proxy.conform.reading import Reading
from svir_proxy.conform.rules.rule import KEPT, NOT_SHOWN, Rule, Verdict, in_answers_of

KEY: Final = "reasoning_content"
OTHER_KEYS: Final = ("reasoning", "reasoning_details", "thinking")
TAGS: Final = ("<think>", "</think>", "<mm:think>", "<|channel|>")


def _messages(reading: Reading) -> list[dict[str, Any]]:
    """The message, or the deltas that are its pieces."""
    if reading.kind == "stream":
        found = [choice.get("delta") for choice in reading.choices]
    else:
        choices = reading.document.get("choices")
        found = (
            [choice.get("message") for choice in choices if isinstance(choice, dict)]
            if isinstance(choices, list)
            else []
        )
    return [message for message in found if isinstance(message, dict)]


def _key(reading: Reading) -> Verdict:
    keys = {key for message in _messages(reading) for key, value in message.items() if value}
    if other := [key for key in OTHER_KEYS if key in keys]:
        return f"reasoning comes under {', '.join(other)}"
    return KEPT if KEY in keys else NOT_SHOWN


def _tags(reading: Reading) -> Verdict:
    content = reading.said["content"]
    if found := [tag for tag in TAGS if tag in content]:
        return f"content has {found[0]}"
    return KEPT if reading.said["reasoning"] else NOT_SHOWN


REASONING: Final = (
    Rule("reasoning-key", "reasoning", "reasoning comes as reasoning_content, and as nothing else",
         in_answers_of("stream", "completion", judge=_key)),
    Rule("reasoning-tags", "reasoning", "no marker of reasoning is left in the content",
         in_answers_of("stream", "completion", judge=_tags)),
)  # fmt: skip
