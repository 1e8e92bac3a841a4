"""Models that are about to go: every answer of one says so, and now and then the log does.

The header is AI Server's, whose documentation names it without saying what it holds: here it is the model to use
instead, or ``true`` where there is none.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from svir_proxy.server.http import Headers
from svir_proxy.server.model_names import is_like

HEADER: Final = b"x-ai-model-deprecated"

_LOGGER: Final = logging.getLogger("svir_proxy")
_SECONDS: Final = 3600.0
"""How often the log tells of one model."""


class Deprecation:
    """The models of ``rules.deprecated``, names or patterns, each with its successor."""

    def __init__(self, models: Mapping[str, str | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._models = models
        self._starred = sorted((name for name in models if "*" in name), key=len, reverse=True)
        self._clock = clock
        self._told: dict[str, float] = {}

    def told(self, model: str) -> str | None:
        """What the header says with an answer of *model*; None where it has none."""
        name = self._name(model)
        return None if name is None else self._models[name] or "true"

    def tell(self, model: str, key: str | None, headers: Headers, may: Callable[[str], bool] | None = None) -> None:
        """Add to the *headers* of an answer of *model*, which the holder of *key* asked for, where it is deprecated.

        *may*: which names the key may be told; None: all.
        """
        name = self._name(model)
        if name is None:
            return
        successor = self._models[name]
        shown = successor if successor and (may is None or may(successor)) else "true"
        headers.append((HEADER, shown.encode("ascii")))
        now = self._clock()
        if now - self._told.get(name, -_SECONDS) >= _SECONDS:
            self._told[name] = now
            asking = "without a key" if key is None else f"with the key {key!r}"
            instead = f"; use {successor!r} instead" if successor else ""
            _LOGGER.warning("the deprecated model %r is asked for, the last time %s%s", name, asking, instead)

    def _name(self, model: str) -> str | None:
        """The name or pattern that *model* is deprecated by: its own before those with a star, the longer first."""
        return model if model in self._models else next((n for n in self._starred if is_like(model, n)), None)
