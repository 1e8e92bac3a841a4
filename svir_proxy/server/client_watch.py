"""A client that leaves stops the work that was done for it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from starlette.types import Receive

from svir_proxy.server.http import ClientGone


class ClientWatch:
    """While entered, the task that entered it is cancelled when the client disconnects, and sees ClientGone.

    The body of the request must have been read. `release` before the last message of an answer: from then on a
    disconnect is the ordinary end.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._task: asyncio.Task[object] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._cancelling = 0
        self.gone = False
        """Whether the client has left."""

    async def __aenter__(self) -> Self:
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        self._watcher = asyncio.get_running_loop().create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None
    ) -> None:
        self.release()
        if self.gone and self._task is not None:
            # Who else cancelled the task meanwhile still wants it to end.
            others = self._task.uncancel() - self._cancelling
            if isinstance(exc, asyncio.CancelledError) and others <= 0:
                raise ClientGone from None

    def release(self) -> None:
        """Watch no longer."""
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._watcher is not None and self._task is not None:
            self._watcher = None
            self.gone = True
            self._task.cancel()
