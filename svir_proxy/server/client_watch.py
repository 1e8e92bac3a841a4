"""A client that leaves stops the work that was done for it.

The proxy's own listener calls back. Of other servers ``receive`` tells it, which a task of its own waits for.
"""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Final, Self

from starlette.types import Receive, Scope

from svir_proxy.server.http import ClientGone
from svir_proxy.server.interruption import Interruption

_LOGGER: Final = logging.getLogger("svir_proxy")


class ClientWatch:
    """While entered, the task that entered it is cancelled when the client disconnects, and sees ClientGone.

    The body of the request must have been read. `release` before the last message of an answer: from then on a
    disconnect is the ordinary end. *scope* may have the listener's extension ``svir.on_disconnect``.
    """

    __slots__ = ("_interruption", "_is_released", "_listening", "_on_disconnect", "_receive")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        extensions = scope.get("extensions")
        self._on_disconnect = None if extensions is None else extensions.get("svir.on_disconnect")
        self._receive = receive
        self._is_released = False
        self._listening: asyncio.Task[None] | None = None  # where nobody calls back

    @property
    def gone(self) -> bool:
        """Whether the client has left."""
        return self._interruption.made

    def __enter__(self) -> Self:
        self._interruption = Interruption()
        if self._on_disconnect is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())
        else:
            self._on_disconnect(self._interruption.make)
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None) -> None:
        if not self._is_released:
            self.release()
        interruption = self._interruption
        if interruption.made and interruption.is_all() and isinstance(exc, asyncio.CancelledError):
            raise ClientGone from None

    def release(self) -> None:
        """Watch no longer."""
        self._is_released = True
        if self._on_disconnect is not None:
            self._on_disconnect(None)
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None

    async def _listen(self) -> None:
        try:
            while (await self._receive())["type"] != "http.disconnect":  # noqa: ASYNC110 - it is the event
                await asyncio.sleep(0)  # whatever it says instead, it must not keep the loop from all else
        except Exception as exc:  # noqa: BLE001 - the answer does not depend on it
            _LOGGER.debug("the server cannot tell whether the client leaves: %r", exc)
            return
        self._interruption.make()
