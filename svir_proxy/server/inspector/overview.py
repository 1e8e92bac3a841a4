"""What there is beside requests: backends and how they do, models, keys; no address's credentials and no key.

Nothing is asked for it: it is what the proxy knows at this moment.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

from svir_proxy.errors import ProxyError
from svir_proxy.server.breaker import Breakers
from svir_proxy.server.catalog import Catalog
from svir_proxy.server.learned import Learned
from svir_proxy.server.upstream import Upstream
from svir_proxy.settings import Settings

_MOST: Final = 500
"""Models, and facts, that are listed."""
_LONGEST: Final = 300
"""Characters of a server's words."""


class Overview:
    """Of one generation. *counts*: see `Recorder.counts`."""

    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        breakers: Breakers,
        learned: Learned,
        counts: Counter[tuple[str, str, str]],
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._breakers = breakers
        self._learned = learned
        self._counts = counts

    def __call__(self) -> dict[str, Any]:
        """All of it, as JSON."""
        now = asyncio.get_running_loop().time()
        states = self._breakers.states(now)
        return {
            "backends": [self._backend(upstream, states) for upstream in self._catalog.upstreams],
            "models": self._models(),
            "keys": [{"name": name, **self._counted("key", name)} for name, _ in self._settings.auth.hashed()[:_MOST]],
        }

    def _backend(self, upstream: Upstream, states: Any) -> dict[str, Any]:
        backend, places = upstream.backend, upstream.places
        listed, error = self._catalog.listing(upstream)
        return {
            "name": upstream.name,
            "url": backend.base_url,
            "profile": upstream.profile.name,
            "server": upstream.profile.server,
            "priority": backend.priority,
            "weight": backend.weight,
            "away": self._catalog.is_away(upstream),
            "list": _list_state(listed is not None, error),
            "models": len(listed or ()),
            "breakers": {model: state for (name, model), state in states.items() if name == upstream.name},
            "places": None if places is None else [places.taken, places.requests, places.waiting],
            "learned": [
                {"model": model, "fact": fact, "value": value}
                for model, facts in self._learned.of_backend(upstream.name).items()
                for fact, value in facts.items()
            ][:_MOST],
            **self._counted("backend", upstream.name),
        }

    def _models(self) -> list[dict[str, Any]]:
        """By the names that clients use; aliases first."""
        models = [
            {"name": alias, "alias": True, "backends": [[upstream.name, model] for upstream, model in means]}
            for alias, means in self._catalog.named()
        ]
        by_name: dict[str, list[list[str]]] = {}
        for upstream in self._catalog.upstreams:
            for item in self._catalog.listing(upstream)[0] or ():
                if item.chat:
                    by_name.setdefault(item.name, []).append([upstream.name, item.id])
        hidden = {model["name"] for model in models}
        listed = [(name, backends) for name, backends in by_name.items() if name not in hidden]
        models += [{"name": name, "alias": False, "backends": backends} for name, backends in listed]
        return models[:_MOST]

    def _counted(self, kind: str, name: str) -> dict[str, int]:
        return {what: self._counts[kind, name, what] for what in ("requests", "errors", "tokens_in", "tokens_out")}


def _list_state(was_read: bool, error: ProxyError | None) -> dict[str, Any]:
    if error is not None:
        return {"state": error.kind, "message": error.message[:_LONGEST]}
    return {"state": "ok" if was_read else "unknown", "message": ""}
