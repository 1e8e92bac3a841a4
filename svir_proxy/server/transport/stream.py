"""Bodies as httpx has them. Most requests and all answers go without: the proxy writes and reads them itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from svir_proxy.server.transport.response import UpstreamResponse

_PIECE: Final = 256 * 1024
"""Bytes of a large payload that are copied at a time."""


class RequestStream(httpx.AsyncByteStream):
    """What `httpx.Request` sends: *pieces*, of which large ones are copied part by part."""

    def __init__(self, pieces: Sequence[bytes | memoryview]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """No more than a part at a time."""
        for piece in self._pieces:
            for start in range(0, len(piece), _PIECE):
                yield bytes(piece[start : start + _PIECE])


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
