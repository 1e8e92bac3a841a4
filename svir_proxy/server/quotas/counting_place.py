"""The place where a generation of the proxy counts, handed on to the next one as long as it is the same."""

from __future__ import annotations

from typing import Self

from svir_proxy.server.quotas.counters import Counters
from svir_proxy.settings import AuthSettings


class CountingPlace:
    """Counters for *auth*, and by how many generations they are used: each has to `leave` them, the first, too."""

    def __init__(self, auth: AuthSettings) -> None:
        self._identity = _identity(auth)
        self._users = 1
        self.counters: Counters
        # Imported here: the libraries take a tenth of a second and some megabytes, which only those pay who count.
        if auth.store_url is None:
            from svir_proxy.server.quotas.memory import MemoryCounters  # noqa: PLC0415 see above

            self.counters = MemoryCounters()
        else:
            from svir_proxy.server.quotas.store import StoreCounters  # noqa: PLC0415 see above

            self.counters = StoreCounters(auth.store_url.get_secret_value(), auth.store_seconds)

    def shared_with(self, auth: AuthSettings) -> Self | None:
        """This place, for one user more, if it is the one that *auth* names."""
        if self._identity != _identity(auth):
            return None
        self._users += 1
        return self

    async def leave(self) -> None:
        """One of the users is no more; with the last of them it is closed."""
        self._users -= 1
        if not self._users:
            await self.counters.close()


def _identity(auth: AuthSettings) -> tuple[str | None, float]:
    return None if auth.store_url is None else auth.store_url.get_secret_value(), auth.store_seconds
