"""The fields of a request that name models beside ``model``, of which a gateway behind the proxy takes one if it likes.

``models`` is OpenRouter's, the others are LiteLLM's: https://docs.litellm.ai/docs/proxy/client_side_fallbacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

OTHER_MODELS: Final = frozenset({"models", "fallbacks", "context_window_fallbacks", "content_policy_fallbacks"})
"""Their names."""


def names_others(body: Mapping[str, Any]) -> bool:
    """Whether *body* has one of them."""
    return not OTHER_MODELS.isdisjoint(body)


def other_models(body: Mapping[str, Any]) -> Iterator[str]:
    """The models that *body* names in them. What is no name is given as Python writes it, as which none is called."""
    for field in OTHER_MODELS & body.keys():
        value = body[field]
        for item in value if isinstance(value, list) else () if value is None else (value,):
            # LiteLLM takes a whole request in the place of a name.
            name = item.get("model") if isinstance(item, dict) else item
            yield name if isinstance(name, str) else str(item)
