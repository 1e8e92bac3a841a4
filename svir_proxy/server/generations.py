"""The application over the life of the process: what serves now, and what has yet to finish.

Each configuration is served by a generation of its own, which never changes. With a new configuration a new generation
takes the place of the old one, in one assignment: requests that come from then on are its, those that run end where
they began, and what the old one holds is given back with the last of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

from svir_proxy.settings import Settings


class Generation(Protocol):
    """What serves one configuration."""

    @property
    def app(self) -> ASGIApp:
        """Serves its HTTP requests."""

    @property
    def apart(self) -> ASGIApp:
        """Serves those that come to the address of its metrics."""

    def drain(self) -> None:
        """The process is about to end: end what would go on for ever."""

    def settle(self) -> None:
        """Leave nothing undone of requests that are over."""

    def retire(self, on_idle: Callable[[], None]) -> None:
        """No request is new from now on: call *on_idle* once the last is over, at once where none runs."""

    async def close(self) -> None:
        """Give back all that is held."""


G = TypeVar("G", bound=Generation)


class Generations(Generic[G]):
    """The ASGI application.

    *make* makes a generation in the running loop: for these settings, in the place of that one (None: the first).
    """

    def __init__(self, settings: Settings, make: Callable[[Settings, G | None], G]) -> None:
        self._settings = settings
        self._make = make
        self._current: G | None = None
        self._living: set[G] = set()
        self._closing: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope."""
        if scope["type"] == "http":
            assert self._current is not None
            await self._current.app(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    async def apart(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request to the address of the metrics."""
        assert self._current is not None
        await self._current.apart(scope, receive, send)

    def reload(self, settings: Settings) -> None:
        """Serve *settings* from the next request on; raises where they cannot be served, and changes nothing.

        To be called in the loop, between startup and shutdown.
        """
        old = self._current
        assert old is not None
        self._begin(settings, old)
        old.retire(partial(self._give_back, old))

    def drain(self) -> None:
        """The process is about to end, once what runs is over: end what would go on for ever."""
        for generation in self._living:
            generation.drain()

    def settle(self) -> None:
        """Leave nothing undone of requests that are over: nobody may come to close what served them."""
        for generation in self._living:
            generation.settle()

    def _begin(self, settings: Settings, before: G | None) -> None:
        self._current = self._make(settings, before)
        self._living.add(self._current)

    def _give_back(self, generation: G) -> None:
        if generation in self._living:
            self._living.remove(generation)
            task = asyncio.get_running_loop().create_task(generation.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self._begin(self._settings, None)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for generation in tuple(self._living):
            self._give_back(generation)
        await asyncio.gather(*self._closing)
        await send({"type": "lifespan.shutdown.complete"})
