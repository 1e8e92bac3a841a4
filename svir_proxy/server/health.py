"""Looks after the backends that no request asks: one that is away is asked last, one that is back in its turn.

A look is a read of the model list, which every server answers quickly and which the catalog needs anyway.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from svir_proxy.server.breaker import Breakers
from svir_proxy.server.catalog import Catalog
from svir_proxy.server.upstream import Upstream

_LOGGER: Final = logging.getLogger("svir_proxy")


class Health:
    """Looks at each backend of *catalog* every so many *seconds*, from now until `close`. Made in the running loop."""

    def __init__(self, catalog: Catalog, breakers: Breakers, seconds: float) -> None:
        self._catalog = catalog
        self._breakers = breakers
        self._seconds = seconds
        loop = asyncio.get_running_loop()
        # One each: a server that lets its list be waited for holds up no other's.
        self._tasks = [loop.create_task(self._look_after(upstream)) for upstream in catalog.upstreams]

    def stop(self) -> None:
        """Look no more."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """`stop`, and wait until no look is under way."""
        self.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _look_after(self, upstream: Upstream) -> None:
        was_away = False
        while True:
            try:
                is_away = await self._look(upstream, was_away)
            except Exception:
                # A look that fails in the proxy itself is not the last one.
                _LOGGER.exception("backend %r could not be looked at", upstream.name)
            else:
                was_away = is_away
            await asyncio.sleep(self._seconds)

    async def _look(self, upstream: Upstream, was_away: bool) -> bool:
        error = await self._catalog.check(upstream)
        if error is not None and not was_away:
            _LOGGER.warning("backend %r is away: %s", upstream.name, error.message)
        elif error is None and was_away:
            _LOGGER.info("backend %r is back", upstream.name)
            self._breakers.returned(upstream.name, asyncio.get_running_loop().time())
        return error is not None
