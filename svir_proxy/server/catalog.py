"""Which models there are, and which backend has them: aliases first, then each server's own list.

A list that is known is enough to find a model in, whatever its age: a server that is busy or gone does not delay the
requests that others can answer. Old lists are asked for anew meanwhile.
"""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.response.model_list import ListedModel, model_entry, read_model_list
from svir_proxy.server.aliases import Aliases
from svir_proxy.server.upstream import Upstream

_FRESH_SECONDS: Final = 10.0
"""How long a list counts: long enough for a burst of requests, short enough to see a model that was just loaded."""
_AWAY: Final = frozenset({"upstream_unreachable", "upstream_timeout", "upstream_failed", "upstream_unavailable"})
"""Errors of a server that may have models all the same."""
_COMPARED_NAMES: Final = 1000
_COMPARED_CHARACTERS: Final = 200
"""How much a name that is not there is compared with: aliases first, and no longer than some milliseconds."""
_WITHOUT_LIST: Final = frozenset({"upstream_bad_response", "invalid_request"})
"""Errors of a server that answers, but has no list to look into."""


class Route(NamedTuple):
    """Where a request goes: the backend, and its server's own name for the model (``""``: none was named)."""

    upstream: Upstream
    model: str
    listed: bool = True
    """Whether the model is an alias or in a list; else any may answer."""


@dataclass(slots=True)
class _Listing:
    """What is known of one server's models."""

    until: float = 0.0
    """When it is old (time of the loop); 0: no attempt was made yet."""
    models: list[ListedModel] | None = None
    """The last list that was read."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """The server's id for each id and each listed name in it."""
    error: ProxyError | None = None
    """Why the last attempt brought none."""


class Catalog:
    """The backends and their models. *listings*: what is known of some already, as `known` gave it.

    *health_seconds*: how often `check` is called for each backend; None: never.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        listings: Mapping[str, _Listing] | None = None,
        health_seconds: float | None = None,
    ) -> None:
        self.upstreams = upstreams
        self._in_order = sorted(upstreams, key=lambda upstream: upstream.backend.priority)
        self._believed = max(0.0, 2 * (health_seconds or 0.0) - _FRESH_SECONDS)
        known = listings or {}
        self._listings = {upstream.name: known.get(upstream.name) or _Listing() for upstream in upstreams}
        self._refreshing: dict[str, asyncio.Task[None]] = {}
        self._started = int(time.time())
        self._aliases = Aliases((upstream, upstream.backend.models) for upstream in self._in_order)
        self._has_stars = self._aliases.has_stars
        self._exact = {alias: _routes(means) for alias, means in self._aliases.exact.items()}
        self._only = upstreams[0] if len(upstreams) == 1 and not self._has_stars else None
        self._takes_any = self._only is not None and self._only.profile.request.model == "any"
        self._at_hand_of: Mapping[str, str] = {}
        self._at_hand: Mapping[str, tuple[Route, ...]] = {}
        """The route of each name in the list of the backend that stands alone, made once for the ids of that list."""

    def known(self, backends: Container[str]) -> Mapping[str, _Listing]:
        """The lists of these *backends*, for a catalog in the place of this one."""
        return {name: listing for name, listing in self._listings.items() if name in backends}

    async def route(self, model: str) -> Route:
        """The first of `routes` that is not away, where one is not; raises ProxyError."""
        routes = await self.routes(model)
        return next((route for route in routes if not self.is_away(route.upstream)), routes[0])

    async def routes(self, model: str, may: Callable[[str], bool] | None = None) -> tuple[Route, ...]:
        """The backends that have *model*, by priority; raises ProxyError, model_not_found with the nearest names.

        Of the names only those are told that *may* is true for; None: any.

        Aliases hide what the servers' lists have under the same name. A backend that stands alone is asked for any
        name, unless naming a model makes its server load it: then it has to be in the server's list or among the
        aliases.
        """
        if (routes := self.routes_at_hand(model)) is not None:
            return routes
        if self._has_stars and (means := self._aliases.matching(model)):
            return _routes(means)
        if not self.upstreams:
            raise ProxyError(
                "upstream_unavailable",
                "No model server is configured and none was found on this machine. Start one, or list it under"
                " backends in the configuration.",
            )
        if self._has_stars and (means := self._aliases.rest(model)):
            await asyncio.gather(*(self.models(u) for u in self.upstreams if not self._listings[u.name].until))
            return self._listed(model) or _routes(means)
        if len(self.upstreams) == 1:
            return (await self._alone(self.upstreams[0], model, may),)
        if routes := self._listed(model):
            return routes
        for upstream in self.upstreams:
            self._refresh(upstream)
        for upstream in self._in_order:
            await self.models(upstream)
            if self._listings[upstream.name].ids.get(model) is not None:
                return self._listed(model)
        raise self._missing(model, may)

    def routes_at_hand(self, model: str) -> tuple[Route, ...] | None:
        """What `routes` says, where no list has to be read for it; None where one may have to be."""
        if (routes := self._exact.get(model)) is not None:
            return routes
        upstream = self._only
        if upstream is None or not model:
            return None
        listing = self._listings[upstream.name]
        if listing.ids is not self._at_hand_of:
            self._at_hand_of = listing.ids
            self._at_hand = {name: (Route(upstream, found or name),) for name, found in listing.ids.items()}
        routes = self._at_hand.get(model)
        if self._takes_any:
            return routes or (Route(upstream, model, listed=False),)
        if routes is None or asyncio.get_running_loop().time() >= listing.until:
            return None
        return routes

    async def _alone(self, upstream: Upstream, model: str, may: Callable[[str], bool] | None) -> Route:
        if not model:
            return Route(upstream, model)
        policy = upstream.profile.request.model
        listing = self._listings[upstream.name]
        found = listing.ids.get(model)
        if found is not None and asyncio.get_running_loop().time() >= listing.until:
            self._refresh(upstream)
        if found is None and (policy == "loads" or listing.models is None):
            listed = await self.models(upstream)
            found = listing.ids.get(model)
            if found is None and policy == "loads":
                if isinstance(listed, ProxyError) and listed.kind not in _WITHOUT_LIST:
                    raise replace(listed)
                raise self._missing(model, may)
        return Route(upstream, found or model, listed=found is not None)

    async def models(self, upstream: Upstream) -> list[ListedModel] | ProxyError:
        """The server's models, or why there is no list."""
        listing = self._listings[upstream.name]
        if asyncio.get_running_loop().time() >= listing.until:
            await asyncio.shield(self._refresh(upstream))
        return listing.error or listing.models or []

    async def check(self, upstream: Upstream) -> ProxyError | None:
        """Read the server's list now; the error of a server that is away."""
        await asyncio.shield(self._refresh(upstream))
        error = self._listings[upstream.name].error
        return error if error is not None and error.kind in _AWAY else None

    def is_away(self, upstream: Upstream) -> bool:
        """Whether the server did not answer the last time, which was not long ago."""
        listing = self._listings[upstream.name]
        if listing.error is None or listing.error.kind not in _AWAY:
            return False
        return asyncio.get_running_loop().time() < listing.until + self._believed

    def known_as(self, model: str) -> str | None:
        """*model* where it is an alias or in a list, the alias with a ``*`` that it is like; None: nobody named it.

        Names that clients made up are as many as they like; these are as many as configuration and lists have.
        """
        if model in self._exact or any(model in listing.ids for listing in self._listings.values()):
            return model
        return self._aliases.pattern_of(model) if self._has_stars else None

    def names_of(self, model: str, route: Route) -> Iterator[str]:
        """Every name that is another word for *model*, by which a client went along *route*.

        Those of the server itself; and where it was one of these, all aliases that the operator gave them. One alias is
        no word for another: they may be there so that each has rules of its own.
        """
        upstream, its, _ = route
        yield its
        ids = self._listings[upstream.name].ids
        yield from (name for name, found in ids.items() if found == its)
        if model not in self._exact and not (self._has_stars and self._aliases.matching(model)):
            yield from self._aliases.names_of(upstream, its)

    def has_id(self, backend: str, model: str) -> bool:
        """Whether *model*, as the server of *backend* calls it, is in its list or stands behind an alias."""
        listing = self._listings.get(backend)
        return (listing is not None and model in listing.ids.values()) or any(
            route.upstream.name == backend and route.model == model
            for routes in self._exact.values()
            for route in routes
        )

    def answering(self) -> Mapping[str, bool]:
        """For each backend that was asked for its list whether it answered the last time."""
        return {
            name: listing.error is None or listing.error.kind not in _AWAY
            for name, listing in self._listings.items()
            if listing.until
        }

    def listing(self, upstream: Upstream) -> tuple[list[ListedModel] | None, ProxyError | None]:
        """The last list that was read from the server, and the error of the last attempt; nothing is asked."""
        listing = self._listings[upstream.name]
        return listing.models, listing.error

    def named(self) -> Iterable[tuple[str, Iterable[tuple[Upstream, str]]]]:
        """The aliases without a star, each with the backends and their servers' own ids."""
        return self._aliases.exact.items()

    def gone(self, model: str, error: ProxyError, may: Callable[[str], bool] | None = None) -> ProxyError:
        """The model_not_found of a server that was thought to have *model*, with the nearest names that are known.

        *may*: as for `routes`.
        """
        for upstream in self.upstreams:
            if model in self._listings[upstream.name].ids:
                self._refresh(upstream)
        near = self._near(model, may)
        said = error.message.rstrip()
        end = "" if said.endswith((".", "!", "?")) else "."
        return replace(error, message=f"{said}{end} {_did_you_mean(near)}") if near else error

    async def states(self) -> dict[str, str]:
        """For each backend ``ok``, or the kind of error that its list met with."""
        await asyncio.gather(*(self.models(upstream) for upstream in self.upstreams))
        errors = {name: listing.error for name, listing in self._listings.items()}
        return {name: "ok" if error is None else error.kind for name, error in errors.items()}

    async def entry(self, model: str, may: Callable[[str], bool] | None = None) -> dict[str, Any]:
        """The canonical object of *model*, by its listed name or its server's id; raises ProxyError.

        *may*: as for `routes`.
        """
        for entry in await self.entries(everything=True):
            if entry["id"] == model:
                return entry
        for listing in self._listings.values():
            for item in listing.models or ():
                if item.id == model:
                    return item.entry()
        for upstream, _ in self._aliases.matching(model) or self._aliases.rest(model):
            return model_entry(model, self._started, upstream.name)
        raise self._missing(model, may)

    async def close(self) -> None:
        """Ask no server any more."""
        tasks = list(self._refreshing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def entries(self, *, everything: bool) -> list[dict[str, Any]]:
        """The canonical model list: aliases, then each backend's chat models (with *everything*: all models).

        Raises the error of the last backend when none has a list and there is no alias.
        """
        entries: dict[str, dict[str, Any]] = {}
        for alias, (route, *_) in self._exact.items():
            entries.setdefault(alias, model_entry(alias, self._started, route.upstream.name))
        error: ProxyError | None = None
        answered = False
        for listed in await asyncio.gather(*(self.models(upstream) for upstream in self.upstreams)):
            if isinstance(listed, ProxyError):
                error = listed
                continue
            answered = True
            for model in listed:
                if model.chat or everything:
                    entries.setdefault(model.name, model.entry())
        if error is not None and not answered and not entries:
            raise replace(error)
        return list(entries.values())

    def _listed(self, model: str) -> tuple[Route, ...]:
        """The backends whose lists, as far as they are known, have *model*; old lists are asked for anew."""
        now = asyncio.get_running_loop().time()
        routes: list[Route] = []
        for upstream in self._in_order:
            listing = self._listings[upstream.name]
            if now >= listing.until:
                self._refresh(upstream)
            if (found := listing.ids.get(model)) is not None:
                routes.append(Route(upstream, found))
        return tuple(routes)

    def _refresh(self, upstream: Upstream) -> asyncio.Task[None]:
        """One attempt at a time to read the server's list, whoever waits for it."""
        name = upstream.name
        task = self._refreshing.get(name)
        if task is None:
            task = self._refreshing[name] = asyncio.get_running_loop().create_task(self._read_list(upstream))
            task.add_done_callback(lambda _: self._refreshing.pop(name))
        return task

    async def _read_list(self, upstream: Upstream) -> None:
        listing = self._listings[upstream.name]
        try:
            models = await self._fetch(upstream)
            listing.models, listing.error = models, None
            listing.ids = {item.name: item.id for item in models} | {item.id: item.id for item in models}
        except ProxyError as error:
            listing.error = error
        listing.until = asyncio.get_running_loop().time() + _FRESH_SECONDS

    async def _fetch(self, upstream: Upstream) -> list[ListedModel]:
        status, body = await upstream.list_models()
        profile = upstream.profile
        models = None
        if 200 <= status < 300:
            if not body.strip():
                return []  # mlx-lm on a machine without a model cache
            models = read_model_list(body, hidden=profile.models.hidden, created=self._started, owned_by=upstream.name)
        if models is not None:
            return models
        if status >= 400:
            raise upstream.error_reader(_NO_REQUEST).from_response(status, {}, body)
        raise ProxyError(
            "upstream_bad_response",
            f"Backend {upstream.name!r} has no model list at {profile.endpoint.models_path}: check its base_url.",
        )

    def _missing(self, model: str, may: Callable[[str], bool] | None) -> ProxyError:
        """The error for a model that no list has; what a server that is away has is not known."""
        errors = {name: listing.error for name, listing in self._listings.items()}
        away = [name for name, error in errors.items() if error is not None and error.kind in _AWAY]
        if away:
            return ProxyError(
                "upstream_unavailable",
                f"No backend that answers has the model {model!r}, and {', '.join(map(repr, away))} did not answer.",
            )
        if not model:
            text = "The request names no model, and more than one backend could be meant."
            return ProxyError("model_not_found", text, param="model")
        near = self._near(model, may)
        hint = _did_you_mean(near) if near else "Name it under models of its backend."
        return ProxyError("model_not_found", f"No backend has the model {model!r}. {hint}", param="model")

    def _near(self, model: str, may: Callable[[str], bool] | None) -> list[str]:
        """The names that are nearest to *model*, or any; not itself, and none that *may* not be told."""
        names = list(self._exact)
        names += [item.name for listing in self._listings.values() for item in listing.models or () if item.chat]
        names = [name for name in dict.fromkeys(names) if name != model and (may is None or may(name))]
        near = difflib.get_close_matches(model[:_COMPARED_CHARACTERS], names[:_COMPARED_NAMES], n=3, cutoff=0.4)
        return near or names[:3]


def _routes(means: Iterable[tuple[Upstream, str]]) -> tuple[Route, ...]:
    return tuple(Route(upstream, model) for upstream, model in means)


def _did_you_mean(names: Iterable[str]) -> str:
    return f"Did you mean {' or '.join(map(repr, names))}?"


_NO_REQUEST: Final = ClientRequest(
    id="models",
    received=1,
    body={},
    model="",
    stream=False,
    include_usage=False,
    tool_names=(),
    tool_choice=None,
    named_tool=None,
    call_ids=frozenset(),
    part_kinds=frozenset(),
)
"""A model list is asked for without a chat request."""
