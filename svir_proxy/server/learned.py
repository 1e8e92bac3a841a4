"""Optional fields that a backend was seen to reject: left out the next time, and tried again after a while."""

from __future__ import annotations

import asyncio
from typing import Final

_SECONDS: Final = 3600.0
"""How long something learned counts: servers are updated, and models are swapped behind a name."""
_ENTRIES: Final = 1000


class Learned:
    """What was learned, by backend and model."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], dict[str, float]] = {}

    def rejected(self, backend: str, model: str) -> frozenset[str]:
        """The fields that *backend* rejects for *model*."""
        known = self._until.get((backend, model))
        if not known:
            return frozenset()
        now = asyncio.get_running_loop().time()
        return frozenset(name for name, until in known.items() if until > now)

    def learn(self, backend: str, model: str, fields: frozenset[str]) -> None:
        """Without *fields* the request was taken."""
        known = self._until.pop((backend, model), {})
        if len(self._until) >= _ENTRIES:
            self._until.pop(next(iter(self._until)))
        until = asyncio.get_running_loop().time() + _SECONDS
        self._until[backend, model] = known | dict.fromkeys(fields, until)
