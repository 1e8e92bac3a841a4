"""What there is beside requests: backends and how they do, models, keys; no address's credentials and no key.

Nothing is asked for it: it is what the proxy knows at this moment.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from svir_proxy.errors import ProxyError
from svir_proxy.server.breaker import Breakers
from svir_proxy.server.catalog import Catalog
from svir_proxy.server.learned import Learned
from svir_proxy.server.quotas.access import Access
from svir_proxy.server.request_record import RequestRecord
from svir_proxy.server.upstream import Upstream
from svir_proxy.settings import Settings

_MOST: Final = 500
"""Models, and facts, that are listed."""
_LONGEST: Final = 300
"""Characters of a server's words."""


class Serving(Protocol):
    """What serves one configuration."""

    settings: Settings
    catalog: Catalog
    breakers: Breakers
    learned: Learned
    access: Access | None
    live: set[RequestRecord]


class Overview:
    """Of *serving*. *counts*: see `Recorder.counts`."""

    def __init__(self, serving: Serving, counts: Counter[tuple[str, str, str]]) -> None:
        self._serving = serving
        self._counts = counts
        self._holders = serving.settings.auth.holders()[:_MOST]

    def __call__(self) -> dict[str, Any]:
        """All of it, as JSON."""
        now = asyncio.get_running_loop().time()
        states = self._serving.breakers.states(now)
        return {
            "backends": [self._backend(upstream, states) for upstream in self._serving.catalog.upstreams],
            "models": self._models(),
            "keys": self._keys(),
            "store": self._store(),
        }

    def _keys(self) -> list[dict[str, Any]]:
        """The holders of keys; of an open proxy with limits, all clients together."""
        keys = [
            {
                "name": holder.name,
                "models": holder.models,
                "expires": None if holder.expires is None else _day(holder.expires),
                **self._allowed(holder.name),
                **self._counted("key", holder.name),
            }
            for holder in self._holders
        ]
        if not keys and self._serving.access is not None:
            keys.append(
                {"name": None, "models": None, "expires": None, **self._allowed(None), **self._counted("key", "")}
            )
        return keys

    def _allowed(self, name: str | None) -> dict[str, Any]:
        """The limits of a holder, and what of them is used: as its last request found it, and the clock has it now."""
        policy = None if self._serving.access is None else self._serving.access.policies.get(name)
        if policy is None:
            return {"limits": [], "running": None}
        running = sum(record.key == name for record in self._serving.live)
        return {
            "limits": policy.used(time.time()),
            "running": None if policy.at_once is None else [running, policy.at_once],
        }

    def _store(self) -> str | None:
        """Where limits are counted, in words; None: nothing is."""
        place = None if self._serving.access is None else self._serving.access.place
        if place is None:
            return None
        if not place.counters.is_shared:
            return "in the memory of this worker"
        return "in the store, which does not answer" if place.counters.is_down else "in the store"

    def _backend(self, upstream: Upstream, states: Any) -> dict[str, Any]:
        backend, places = upstream.backend, upstream.places
        listed, error = self._serving.catalog.listing(upstream)
        return {
            "name": upstream.name,
            "url": backend.base_url,
            "profile": upstream.profile.name,
            "server": upstream.profile.server,
            "priority": backend.priority,
            "weight": backend.weight,
            "away": self._serving.catalog.is_away(upstream),
            "list": _list_state(listed is not None, error),
            "models": len(listed or ()),
            "breakers": {model: state for (name, model), state in states.items() if name == upstream.name},
            "places": None if places is None else [places.taken, places.requests, places.waiting],
            "learned": [
                {"model": model, "fact": fact, "value": value}
                for model, facts in self._serving.learned.of_backend(upstream.name).items()
                for fact, value in facts.items()
            ][:_MOST],
            **self._counted("backend", upstream.name),
        }

    def _models(self) -> list[dict[str, Any]]:
        """By the names that clients use; aliases first."""
        models = [
            {"name": alias, "alias": True, "backends": [[upstream.name, model] for upstream, model in means]}
            for alias, means in self._serving.catalog.named()
        ]
        by_name: dict[str, list[list[str]]] = {}
        for upstream in self._serving.catalog.upstreams:
            for item in self._serving.catalog.listing(upstream)[0] or ():
                if item.chat:
                    by_name.setdefault(item.name, []).append([upstream.name, item.id])
        hidden = {model["name"] for model in models}
        listed = [(name, backends) for name, backends in by_name.items() if name not in hidden]
        models += [{"name": name, "alias": False, "backends": backends} for name, backends in listed]
        return models[:_MOST]

    def _counted(self, kind: str, name: str) -> dict[str, int]:
        return {what: self._counts[kind, name, what] for what in ("requests", "errors", "tokens_in", "tokens_out")}


def _day(time_: float) -> str:
    return f"{datetime.fromtimestamp(time_, UTC):%Y-%m-%d %H:%M}"


def _list_state(was_read: bool, error: ProxyError | None) -> dict[str, Any]:
    if error is not None:
        return {"state": error.kind, "message": error.message[:_LONGEST]}
    return {"state": "ok" if was_read else "unknown", "message": ""}
