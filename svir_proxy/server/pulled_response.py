"""Any httpx response with the interface of the project's own transport, which can be pushed.

For transports that know no push: `httpx.MockTransport` in tests, the stock transport behind an HTTP proxy.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import httpx

from svir_proxy.server.transport import BodySink


class PulledResponse:
    """Pulls a response's stream in a task and pushes it into a sink. Closes the response in the end, in any case."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers = response.headers.raw
        self.is_encoded = "content-encoding" in response.headers
        self._running = asyncio.Event()
        self._running.set()
        self._closed = False
        self._pump: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    def at_hand(self, limit: int) -> None:
        """Nothing ever is."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Its bytes, pulled after all."""
        return aiter(cast(AsyncIterator[bytes], self._response.stream))

    async def aclose(self) -> None:
        """Close the response."""
        await self._response.aclose()

    def attach(self, sink: BodySink) -> None:
        """Push into *sink* from now on."""
        self._pump = asyncio.get_running_loop().create_task(self._push(sink))

    def pause(self) -> None:
        """Push nothing more until `resume`."""
        self._running.clear()

    def resume(self) -> None:
        """Go on."""
        self._running.set()

    def close(self) -> None:
        """Want no more of it; ends the request."""
        if not self._closed:
            self._closed = True
            self._closing = asyncio.get_running_loop().create_task(self._end())

    async def _push(self, sink: BodySink) -> None:
        error: Exception | None = None
        try:
            async for data in cast(AsyncIterator[bytes], self._response.stream):
                await self._running.wait()
                if self._closed:
                    return
                sink.data_received(data)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the sink waits for the end
            error = exc
        await self._running.wait()
        if not self._closed:
            sink.body_ended(error)
            self.close()

    async def _end(self) -> None:
        pump = self._pump
        if pump is not None and not pump.done():
            pump.cancel()
            await asyncio.wait((pump,))
        await self._response.aclose()
