"""One request that several backends could answer: asked one after the other, until one does.

Another is asked only where the one before failed and the client has nothing of its answer: a stream may have begun and
be kept alive, but has no output; a plain answer is not sent before it is whole. And never for what the client did
wrong: that would be wrong everywhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, Generic, Protocol, TypeVar

from svir_proxy.errors import KINDS, ProxyError
from svir_proxy.server.breaker import Breakers, Key
from svir_proxy.server.catalog import Route
from svir_proxy.server.http import Headers
from svir_proxy.server.upstream import Upstream

_LOGGER: Final = logging.getLogger("svir_proxy")
_ELSEWHERE: Final = frozenset(
    {kind for kind, row in KINDS.items() if row.type in ("upstream_error", "rate_limit_error")} | {"model_not_found"}
)
"""Errors that another backend may not have. That a server has not the model which it was thought to have is one."""
_SAYS_WHEN: Final = frozenset({429, 503})
_NO_WORK: Final = frozenset({"upstream_unreachable", "upstream_auth_failed", "model_not_found"})
"""Errors of a server that did nothing for the request, and did not say when it would."""


class Noting(Protocol):
    """What tells what was changed about it."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed, in the words of ``x-svir-rewrites``."""


class Filled(Protocol):
    """The answer that the client gets."""

    @property
    def has_output(self) -> bool:
        """Whether there is any of it: after that nobody else is asked."""

    @property
    def gathers(self) -> bool:
        """Whether the client sees nothing before it is whole."""

    def restart(self) -> None:
        """Another backend's answer takes the place of this one."""


R = TypeVar("R", bound=Noting)
A = TypeVar("A", bound=Filled)
A_contra = TypeVar("A_contra", bound=Filled, contravariant=True)


class Attempt(Noting, Protocol[A_contra]):
    """A request on its way to one backend."""

    @property
    def headers(self) -> Headers:
        """Headers of the server's answer that are passed on."""

    def run(self, answer: A_contra) -> Awaitable[ProxyError | None]:
        """Fill *answer*; the error where it is not whole."""


class Failover(Generic[R, A]):
    """The backends of one request. Stands for the attempt with the one that is asked at the time.

    Args:
        request: What the client asked.
        routes: The backends that have the model, in the order they are to be asked in.
        exchange: Makes the attempt with one of them; raises ProxyError where it cannot take the request.
        on_asked: Called with each backend before it is asked, and in the end with the one whose error is told.
        breakers: What the last requests say about the backends.
        is_away: Whether a backend is known not to answer.
        seconds: How long from now on another backend may be asked.
    """

    asked = ""
    """No model is told apart from the one that answers: each of the backends has the one that was named."""

    def __init__(
        self,
        request: R,
        routes: Sequence[Route],
        *,
        exchange: Callable[[R, Route], Awaitable[Attempt[A]]],
        on_asked: Callable[[Upstream], None],
        breakers: Breakers,
        is_away: Callable[[Upstream], bool],
        seconds: float,
    ) -> None:
        self.request = request
        self._left = list(routes)
        self._make = exchange
        self._on_asked = on_asked
        self._breakers = breakers
        self._is_away = is_away
        self._time = asyncio.get_running_loop().time
        self._until = self._time() + seconds
        self._failures: list[tuple[ProxyError, Upstream]] = []
        self._told: list[str] = []
        self._exchange: Attempt[A] | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Who failed, and what was changed in the request for the one that is asked."""
        changed = self.request.notes if self._exchange is None else self._exchange.notes
        return (*self._told, *changed)

    @property
    def headers(self) -> Headers:
        """Headers that are passed on from the server that was asked last."""
        return [] if self._exchange is None else self._exchange.headers

    async def run(self, answer: A) -> ProxyError | None:
        """Fill *answer*; the error where it is not whole."""
        while True:
            route = self._pick()
            self._on_asked(route.upstream)
            error = await self._ask(route, answer)
            if error is None or error.kind not in _ELSEWHERE:
                return error
            if answer.has_output and not answer.gathers:
                return error
            self._failures.append((error, route.upstream))
            if not self._left or self._time() >= self._until:
                return self._most_telling()
            self._note(route, error)
            answer.restart()

    def _pick(self) -> Route:
        """The next to be asked: one that is not known to fail, and has a place; else that is, and has none."""
        now = self._time()
        best, least = 0, 4
        full: list[tuple[int, Route]] = []
        for index, route in enumerate(self._left):
            upstream = route.upstream
            is_full = upstream.places is not None and upstream.places.is_full
            is_failing = not self._breakers.admits(_key(route), now) or self._is_away(upstream)
            if is_full and not is_failing:
                full.append((index, route))
            if (rank := 2 * is_failing + is_full) < least:
                best, least = index, rank
        if not least:
            for index, route in full:
                if index < best:
                    self._tell(f"failover={route.upstream.name}:overloaded")
        return self._left.pop(best)

    async def _ask(self, route: Route, answer: A) -> ProxyError | None:
        """Ask one backend, in its line where it has one; what it did is remembered."""
        key = _key(route)
        self._breakers.begin(key, self._time())
        self._exchange = None
        known = False
        try:
            exchange = self._exchange = await self._make(self.request, route)
            if (places := route.upstream.places) is None:
                error = await exchange.run(answer)
            else:
                async with places:
                    error = await exchange.run(answer)
            self._remember(key, error)
            known = True
        except ProxyError as refusal:  # before the server was asked
            return refusal
        else:
            return error
        finally:
            if not known:
                self._breakers.gave_up(key)

    def _remember(self, key: Key, error: ProxyError | None) -> None:
        name, model = key
        if error is None or error.kind not in _ELSEWHERE:
            if self._breakers.succeeded(key):
                _LOGGER.info("backend %r answers again for the model %r", name, model)
        elif self._breakers.failed(key, self._time(), error.retry_after):
            _LOGGER.warning("backend %r is asked last for the model %r, for a while: %s", name, model, error.kind)

    def _note(self, route: Route, error: ProxyError) -> None:
        self._tell(f"failover={route.upstream.name}:{error.kind}")

    def _tell(self, note: str) -> None:
        if note not in self._told:
            self._told.append(note)

    def _most_telling(self) -> ProxyError:
        """The last error of a server that was at work; else of one that said when it will be; else the last.

        The client is told to come back when the first of those that said so will be ready.
        """
        error, upstream = max(reversed(self._failures), key=lambda failure: _weight(failure[0]))
        self._on_asked(upstream)
        if error.status in _SAYS_WHEN:
            waits = [e.retry_after for e, _ in self._failures if e.status in _SAYS_WHEN and e.retry_after is not None]
            return replace(error, retry_after=min(waits, default=None))
        return error


def _key(route: Route) -> Key:
    return route.upstream.name, route.model


def _weight(error: ProxyError) -> int:
    return 0 if error.kind in _NO_WORK else 1 if error.status in _SAYS_WHEN else 2
