"""A client that leaves stops the work that was done for it.

The proxy's own listener calls back. Of other servers ``receive`` tells it, a coroutine that waits for as long as the
answer takes; it is driven by hand, where a task of its own would cost every request two switches and a cancellation.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from starlette.types import Receive, Scope

from svir_proxy.server.http import ClientGone
from svir_proxy.server.interruption import Interruption


class ClientWatch:
    """While entered, the task that entered it is cancelled when the client disconnects, and sees ClientGone.

    The body of the request must have been read. `release` before the last message of an answer: from then on a
    disconnect is the ordinary end. *scope* may have the listener's extension ``svir.on_disconnect``.
    """

    __slots__ = ("_interruption", "_is_released", "_on_disconnect", "_receive", "_receiving", "_waiting")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        extensions = scope.get("extensions")
        self._on_disconnect = None if extensions is None else extensions.get("svir.on_disconnect")
        self._receive = receive
        self._is_released = False
        self._receiving: Coroutine[Any, Any, Any] | None = None
        self._waiting: asyncio.Future[Any] | None = None  # what `_receiving` waits for

    @property
    def gone(self) -> bool:
        """Whether the client has left."""
        return self._interruption.made

    def __enter__(self) -> Self:
        self._interruption = Interruption()
        if self._on_disconnect is None:
            self._listen()
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
            return
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.remove_done_callback(self._go_on)
        receiving, self._receiving = self._receiving, None
        if receiving is not None:
            receiving.close()

    def _listen(self) -> None:
        receiving = self._receive()
        if type(receiving) is not types.CoroutineType and not isinstance(receiving, Coroutine):
            receiving = _awaited(receiving)
        self._receiving = receiving
        self._step(receiving)

    def _go_on(self, _: object) -> None:
        self._waiting = None
        if self._receiving is not None:  # else released in the same turn of the loop
            self._step(self._receiving)

    def _step(self, receiving: Coroutine[Any, Any, Any]) -> None:
        """Drive `receive` to where it waits next, as a task would."""
        try:
            waited = receiving.send(None)
        except StopIteration as end:
            self._receiving = None
            if end.value["type"] == "http.disconnect":
                self._interruption.make()
            else:
                self._listen()
            return
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - a server that cannot tell of a client that leaves
            self._receiving = None
            return
        # As a task does: a future that is awaited says so, and wants to be told that somebody took notice.
        waiting = waited if getattr(waited, "_asyncio_future_blocking", None) is not None else _next_turn()
        waiting._asyncio_future_blocking = False  # noqa: SLF001 - see above
        waiting.add_done_callback(self._go_on)
        self._waiting = waiting


async def _awaited(receiving: Any) -> Any:
    return await receiving


def _next_turn() -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(future.set_result, None)
    return future
