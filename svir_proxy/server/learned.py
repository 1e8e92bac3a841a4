"""What rejections taught about a backend's server: facts that its profile had otherwise, for a while.

Servers are updated and models are swapped behind a name, so nothing is believed for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping
from typing import Final

_SECONDS: Final = 3600.0
_ENTRIES: Final = 1000
_FACTS: Final = 100
"""What is believed of one model at most."""

Value = str | bool | None
Facts = Mapping[str, Value]
"""Values by the dotted path of the profile's fact."""


class Learned:
    """What was learned, by backend and model."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[str, tuple[Value, float]]] = {}

    def of(self, backends: Container[str]) -> Learned:
        """What is known of these *backends* alone, to be learned from apart from this."""
        kept = Learned()
        kept._known = {key: dict(facts) for key, facts in self._known.items() if key[0] in backends}
        return kept

    def facts(self, backend: str, model: str) -> Facts:
        """What is known of *backend* for *model*."""
        known = self._known.get((backend, model))
        if not known:
            return {}
        now = asyncio.get_running_loop().time()
        return {path: value for path, (value, until) in known.items() if until > now}

    def learn(self, backend: str, model: str, facts: Facts) -> None:
        """With *facts* the request was taken."""
        known = self._known.pop((backend, model), {})
        if len(self._known) >= _ENTRIES:
            self._known.pop(next(iter(self._known)))
        facts = dict(list(facts.items())[: _FACTS - len(known)])  # clients choose the names of some
        until = asyncio.get_running_loop().time() + _SECONDS
        self._known[backend, model] = known | {path: (value, until) for path, value in facts.items()}
