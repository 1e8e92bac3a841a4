"""The body of a response as httpx reads it. The proxy itself reads the response, and makes none of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from svir_proxy.server.transport.response import UpstreamResponse


class ResponseStream(httpx.AsyncByteStream):
    """What `httpx.Response` iterates and closes: the body of *response*."""

    def __init__(self, response: UpstreamResponse) -> None:
        self._response = response

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Its pieces, as they arrive."""
        return self._response

    async def aclose(self) -> None:
        """Close the response."""
        self._response.close()
