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


def read_extras(chunk: Any) -> dict[str, Any]:
    """The foreign keys of a chunk and of its choices that say something, without nesting."""
    if not isinstance(chunk, dict):
        return {}
    extras = {key: value for key, value in chunk.items() if key not in _CHUNK_KEYS and value is not None}
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            extras |= {key: value for key, value in choice.items() if key not in _CHOICE_KEYS and value is not None}
    return extras
