"""Which models there are, and which backend has them: aliases first, then each server's own list."""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.response.model_list import ListedModel, model_entry, read_model_list
from svir_proxy.server.upstream import Upstream

_FRESH_SECONDS: Final = 10.0
"""How long a list counts: long enough for a burst of requests, short enough to see a model that was just loaded."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes: the backend, and its server's own name for the model (``""``: none was named)."""

    upstream: Upstream
    model: str


class Catalog:
    """The backends and their models."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        self.upstreams = upstreams
        self._lists: dict[str, tuple[float, list[ListedModel] | ProxyError]] = {}
        self._locks: dict[str, asyncio.Lock] = {upstream.name: asyncio.Lock() for upstream in upstreams}
        self._started = int(time.time())

    async def route(self, model: str) -> Route:
        """The backend for *model*; raises ProxyError, model_not_found with the nearest names.

        A backend that stands alone is asked for any name, unless naming a model makes its server load it.
        """
        for upstream in self.upstreams:
            if model in upstream.backend.models:
                return Route(upstream, upstream.backend.models[model])
        if not self.upstreams:
            raise ProxyError(
                "upstream_unavailable",
                "No model server is configured and none was found on this machine. Start one, or list it under"
                " backends in the configuration.",
            )
        if len(self.upstreams) == 1:
            return await self._alone(self.upstreams[0], model)
        lists = await asyncio.gather(*(self.models(upstream) for upstream in self.upstreams))
        for upstream, listed in zip(self.upstreams, lists, strict=True):
            found = _find(listed, model)
            if found is not None:
                return Route(upstream, found)
        raise self._not_found(model, [item for listed in lists for item in _known(listed)])

    async def _alone(self, upstream: Upstream, model: str) -> Route:
        loads = upstream.profile.request.model == "loads"
        cached = self._lists.get(upstream.name)
        if not loads and (cached is None or not isinstance(cached[1], list)):
            return Route(upstream, model)
        listed = await self.models(upstream) if loads else cached[1] if cached else []
        found = _find(listed, model)
        if found is not None:
            return Route(upstream, found)
        if loads and model and isinstance(listed, list) and listed:
            raise self._not_found(model, listed)
        return Route(upstream, model)

    async def models(self, upstream: Upstream) -> list[ListedModel] | ProxyError:
        """The server's models, or why there is no list."""
        async with self._locks[upstream.name]:
            now = asyncio.get_running_loop().time()
            cached = self._lists.get(upstream.name)
            if cached is not None and now < cached[0]:
                return cached[1]
            try:
                listed: list[ListedModel] | ProxyError = await self._fetch(upstream)
            except ProxyError as error:
                listed = error
            self._lists[upstream.name] = (asyncio.get_running_loop().time() + _FRESH_SECONDS, listed)
            return listed

    async def entries(self, *, everything: bool) -> list[dict[str, Any]]:
        """The canonical model list: aliases, then each backend's chat models (with *everything*: all models).

        Raises the error of the last backend when none has a list and there is no alias.
        """
        entries: dict[str, dict[str, Any]] = {}
        for upstream in self.upstreams:
            for alias in upstream.backend.models:
                entries.setdefault(alias, model_entry(alias, self._started, upstream.name))
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
            raise error
        return list(entries.values())

    async def _fetch(self, upstream: Upstream) -> list[ListedModel]:
        status, body = await upstream.list_models()
        profile = upstream.profile
        models = None
        if 200 <= status < 300:
            models = read_model_list(body, hidden=profile.models.hidden, created=self._started, owned_by=upstream.name)
        if models is not None:
            return models
        if status >= 400:
            raise upstream.error_reader(_NO_REQUEST).from_response(status, {}, body)
        raise ProxyError(
            "upstream_bad_response",
            f"Backend {upstream.name!r} has no model list at {profile.endpoint.models_path}: check its base_url.",
        )

    @staticmethod
    def _not_found(model: str, known: Sequence[ListedModel]) -> ProxyError:
        names = [item.name for item in known if item.chat]
        near = difflib.get_close_matches(model, names, n=3, cutoff=0.4) or names[:3]
        hint = f" Did you mean {', '.join(map(repr, near))}?" if near else ""
        return ProxyError("model_not_found", f"No backend has the model {model!r}.{hint}", param="model")


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


def _known(listed: list[ListedModel] | ProxyError) -> list[ListedModel]:
    return listed if isinstance(listed, list) else []


def _find(listed: list[ListedModel] | ProxyError, model: str) -> str | None:
    """The server's id for *model*, by id or by listed name."""
    known = _known(listed)
    return next((item.id for item in known if item.id == model), None) or next(
        (item.id for item in known if item.name == model), None
    )
