"""What a server says outside of the protocol, for backends that expose it (``expose_extras``).

llama.cpp's ``timings``, LM Studio's ``stats``, Azure's ``content_filter_results``, Perplexity's ``citations``, vLLM's
``stop_reason``: dropped by default, so that every answer is canonical; otherwise gathered under one key, ``svir``.
"""

from __future__ import annotations

from typing import Any, Final

_CHUNK_KEYS: Final = frozenset(
    {"id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier", "error"}
)
_CHOICE_KEYS: Final = frozenset({"index", "delta", "message", "text", "finish_reason", "logprobs", "usage", "error"})
_DEEPEST: Final = 32
"""Levels of nesting; what is deeper could not be written again, and nobody could read it."""


def read_extras(chunk: Any) -> dict[str, Any]:
    """The foreign keys of a chunk and of its choices that say something, without nesting."""
    if not isinstance(chunk, dict):
        return {}
    extras = {key: value for key, value in chunk.items() if key not in _CHUNK_KEYS and _says_something(value)}
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            extras |= {key: item for key, item in choice.items() if key not in _CHOICE_KEYS and _says_something(item)}
    return extras


def _says_something(value: Any) -> bool:
    return value is not None and not _is_deeper(value, _DEEPEST)


def _is_deeper(value: Any, depth: int) -> bool:
    """Whether *value* is nested more than *depth* deep."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return False
    return depth == 0 or any(_is_deeper(item, depth - 1) for item in value)
