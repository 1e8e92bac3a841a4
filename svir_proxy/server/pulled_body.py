"""The body of any httpx response with the push interface of the project's own transport.

For transports that know no push: `httpx.MockTransport` in tests, the stock transport behind an HTTP proxy.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import httpx

from svir_proxy.server.transport import BodySink


class PulledBody:
    """Pulls a response's stream in a task and pushes it into a sink."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._running = asyncio.Event()
        self._running.set()
        self._task: asyncio.Task[None] | None = None

    def attach(self, sink: BodySink) -> None:
        """Push into *sink* from now on."""
        self._task = asyncio.get_running_loop().create_task(self._pump(sink))

    def pause(self) -> None:
        """Push nothing more until `resume`."""
        self._running.clear()

    def resume(self) -> None:
        """Go on."""
        self._running.set()

    def close(self) -> None:
        """Want no more of it; ends the request."""
        if self._task is not None:
            self._task.cancel()

    async def _pump(self, sink: BodySink) -> None:
        error: Exception | None = None
        try:
            async for data in cast(AsyncIterator[bytes], self._response.stream):
                await self._running.wait()
                sink.data_received(data)
        except (httpx.TransportError, httpx.StreamError) as exc:
            error = exc
        finally:
            await self._response.aclose()
        await self._running.wait()
        sink.body_ended(error)
