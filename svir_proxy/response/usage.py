"""A server's token counts, wherever it put them and whatever it called them, in OpenAI's shape.

Seen: ``input_tokens`` / ``output_tokens``, ``completion_tokens: null`` on the way (Databricks), zeros as placeholders
(LocalAI, MiniMax), ``{}`` (LiteLLM), reasoning left out of ``completion_tokens`` (xAI), reasoning counted above it
(Baseten), ``reasoning_tokens`` at the top level (SGLang), and any number of foreign keys.
"""

from __future__ import annotations

from typing import Any, Final

from svir_proxy.response.json_text import LARGEST_INTEGER, safe_integer

_PROMPT_DETAILS: Final = ("audio_tokens", "cached_tokens", "cache_write_tokens", "image_tokens", "text_tokens")
_COMPLETION_DETAILS: Final = (
    "accepted_prediction_tokens",
    "audio_tokens",
    "reasoning_tokens",
    "rejected_prediction_tokens",
    "text_tokens",
)


def read_usage(reported: Any) -> dict[str, Any] | None:
    """The counts in *reported* with OpenAI's keys only; None where it is no complete report or all zeros."""
    if not isinstance(reported, dict):
        return None
    prompt, completion = reported.get("prompt_tokens"), reported.get("completion_tokens")
    total = reported.get("total_tokens")
    if not (
        type(prompt) is type(completion) is type(total) is int
        and 0 <= prompt <= total <= LARGEST_INTEGER
        and total - prompt == completion
    ):
        # Not as all but a few say it: each count is looked at, and looked for.
        prompt = _count(reported, "prompt_tokens", "input_tokens")
        completion = _count(reported, "completion_tokens", "output_tokens")
        total = safe_integer(total)
    if prompt is None or (completion is None and total is None):
        return None
    if completion is None:
        if "completion_tokens" in reported:
            return None  # a running report that does not know it yet
        completion = max((total or 0) - prompt, 0)
    if total is not None and total > prompt + completion:
        completion = total - prompt
    if not prompt and not completion:
        return None
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    details = reported.get("prompt_tokens_details") or reported.get("input_tokens_details")
    if details and (kept := _kept(details, _PROMPT_DETAILS)):
        usage["prompt_tokens_details"] = kept
    details = reported.get("completion_tokens_details") or reported.get("output_tokens_details")
    if details or "reasoning_tokens" in reported:
        kept = _kept(details, _COMPLETION_DETAILS)
        reasoning = kept.get("reasoning_tokens", safe_integer(reported.get("reasoning_tokens")))
        if reasoning is not None:
            kept["reasoning_tokens"] = min(reasoning, completion)
        if kept:
            usage["completion_tokens_details"] = kept
    return usage


def _kept(details: Any, names: tuple[str, ...]) -> dict[str, int]:
    if not isinstance(details, dict):
        return {}
    kept: dict[str, int] = {}
    for name in names:
        if name in details and (count := safe_integer(details[name])) is not None:
            kept[name] = count
    return kept


def _count(source: dict[str, Any], name: str, other_name: str) -> int | None:
    value = safe_integer(source.get(name))
    return safe_integer(source.get(other_name)) if value is None else value
