"""Bodies as httpx has them."""

from __future__ import annotations

import httpx
import pytest

from svir_proxy.server.transport.response import UpstreamResponse
from svir_proxy.server.transport.stream import RequestStream, ResponseStream


class Connection:
    """The source of a response: notes that it was left."""

    left = 0

    def hold_reading(self, hold: bool) -> None:
        assert not hold

    def leave(self) -> None:
        self.left += 1


async def test_httpx_reads_and_closes_it() -> None:
    body = UpstreamResponse(Connection(), 10)
    body.feed(b"a")
    body.end(None, b"b")
    response = httpx.Response(200, stream=ResponseStream(body))
    assert await response.aread() == b"ab"
    assert response.is_closed
    assert body.at_hand(10) is None


async def test_closing_it_leaves_the_connection() -> None:
    connection = Connection()
    stream = ResponseStream(UpstreamResponse(connection, 10))
    await stream.aclose()
    await stream.aclose()
    assert connection.left == 1
    with pytest.raises(httpx.StreamClosed):
        await anext(aiter(stream))


async def test_a_large_request_is_copied_part_by_part() -> None:
    pieces = [b"a", memoryview(b"b" * 600_000), b""]
    request = httpx.Request("POST", "http://server", stream=RequestStream(pieces))
    assert isinstance(request.stream, httpx.AsyncByteStream)
    parts = [part async for part in request.stream]
    assert b"".join(parts) == b"".join(pieces)
    assert max(map(len, parts)) == 256 * 1024
