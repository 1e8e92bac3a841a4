"""What rejections taught about a backend's server: facts that its profile had otherwise, for a while.

Servers are updated and models are swapped behind a name, so nothing is believed for ever.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Container, Mapping
from typing import Final

from svir_proxy.profiles.schema import Profile
from svir_proxy.request.retry import apply_learned

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
        self.known: Final[dict[tuple[str, str], dict[str, tuple[Value, float]]]] = {}
        """Values by the path of the fact, and until when they count, in the time of the loop; by backend and model."""
        self._applied: dict[tuple[str, str], tuple[Profile, Profile, float]] = {}
        """Profiles as they are and as they were learned to be, and until when, in the time of the loop."""

    def of(self, backends: Container[str]) -> Learned:
        """What is known of these *backends* alone, to be learned from apart from this."""
        kept = Learned()
        kept.known.update({key: dict(facts) for key, facts in self.known.items() if key[0] in backends})
        return kept

    def facts(self, backend: str, model: str) -> Facts:
        """What is known of *backend* for *model*."""
        known = self.known.get((backend, model))
        if not known:
            return {}
        now = asyncio.get_running_loop().time()
        return {path: value for path, (value, until) in known.items() if until > now}

    def of_backend(self, backend: str) -> Mapping[str, Facts]:
        """What is known of *backend*, by model."""
        return {model: facts for name, model in self.known if name == backend and (facts := self.facts(name, model))}

    def apply(self, profile: Profile, backend: str, model: str) -> Profile:
        """*profile*, which is that of *backend*, with what is known of it for *model*; itself where nothing is."""
        key = backend, model
        if key not in self.known:
            return profile
        applied = self._applied.get(key)
        if applied is None or applied[0] is not profile or applied[2] <= asyncio.get_running_loop().time():
            facts = self.facts(backend, model)
            until = min((self.known[key][path][1] for path in facts), default=math.inf)
            applied = self._applied[key] = profile, apply_learned(profile, facts), until
        return applied[1]

    def learn(self, backend: str, model: str, facts: Facts) -> None:
        """With *facts* the request was taken."""
        known = self.known.pop((backend, model), {})
        self._applied.pop((backend, model), None)
        if len(self.known) >= _ENTRIES:
            oldest = next(iter(self.known))
            del self.known[oldest]
            self._applied.pop(oldest, None)
        facts = dict(list(facts.items())[: _FACTS - len(known)])  # clients choose the names of some
        until = asyncio.get_running_loop().time() + _SECONDS
        self.known[backend, model] = known | {path: (value, until) for path, value in facts.items()}
