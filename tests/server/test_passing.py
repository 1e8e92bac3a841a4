"""What of a server's head is passed on, how its body is taken, and what its refusals mean beside chat."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import pytest

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.request.model_field import ModelInJson
from svir_proxy.server.catalog import Route
from svir_proxy.server.passing import Passed, PassedAnswer, Passing, Success
from svir_proxy.server.pulled_response import PulledResponse
from svir_proxy.server.transport import UpstreamResponse
from svir_proxy.server.upload import Upload
from svir_proxy.server.upstream import Upstream
from tests.server.support import Wire, settings
from tests.server.transport.raw_server import until

Headers = list[tuple[bytes, bytes]]
LENGTH, TYPE, CACHE = b"content-length", b"content-type", b"cache-control"
JSON: Headers = [(b"Content-Type", b"application/json; charset=utf-8")]
EVENTS: Headers = [(b"content-type", b"Text/Event-Stream")]
NO_BUFFER = (b"x-accel-buffering", b"no")


def upstream(answer: Any = None, **backend: Any) -> Upstream:
    configured = settings(backend=backend)
    return Upstream(configured.backends[0], configured.limits, httpx.MockTransport(answer))


def success(headers: Headers, status: int = 200) -> Success:
    server = upstream()
    response = cast(UpstreamResponse, PulledResponse(httpx.Response(status, headers=headers)))
    return Success(server, response, server.error_reader(ClientRequest.without_chat("m")))


@pytest.mark.parametrize(
    ("headers", "kept"),
    [
        ([(b"Content-Type", b"a/b"), (b"Content-Length", b"5")], [(TYPE, b"a/b"), (LENGTH, b"5")]),
        ([(b"set-cookie", b"a=b"), (b"server", b"s"), (b"connection", b"close"), (b"x-any", b"1")], []),
        ([(b"content-type", b"a/b"), (b"content-type", b"c/d")], [(TYPE, b"a/b")]),
        ([(b"content-encoding", b"gzip"), (b"content-length", b"5")], []),
        ([(b"content-encoding", b"identity"), (b"content-length", b"5")], [(LENGTH, b"5")]),
        (EVENTS, [(TYPE, b"Text/Event-Stream"), (CACHE, b"no-cache"), NO_BUFFER]),
        ([*EVENTS, (CACHE, b"no-store")], [(TYPE, b"Text/Event-Stream"), (CACHE, b"no-store"), NO_BUFFER]),
    ],
)
async def test_heads(headers: Headers, kept: Headers) -> None:
    start = success(headers).start([(b"x-own", b"1")])
    assert start["status"] == 200
    assert sorted(start["headers"]) == sorted([*kept, (b"x-own", b"1")])


@pytest.mark.parametrize("status", [204, 304])
async def test_what_has_no_body_has_no_length(status: int) -> None:
    assert success([(LENGTH, b"5")], status).start([])["headers"] == []


@pytest.mark.parametrize(
    ("headers", "room"),
    [
        ([*JSON, (LENGTH, b"65536")], 65536),
        ([(TYPE, b"application/problem+json"), (LENGTH, b"1")], 65536),
        ([*JSON, (LENGTH, b"65537")], 0),
        ([*JSON, (LENGTH, b"0")], 0),
        (JSON, 0),
        ([(TYPE, b"audio/wav"), (LENGTH, b"5")], 0),
        ([*EVENTS, (LENGTH, b"5")], 0),
    ],
)
async def test_small_json_is_looked_at(headers: Headers, room: int) -> None:
    assert success(headers).room == room


@pytest.mark.parametrize(
    ("held", "kind"),
    [
        (b'{"error":"Unexpected endpoint or method. (POST /v1/rerank)"}', "upstream_failed"),
        (b' {\n"error": {"message": "bad", "type": "invalid_request_error"}}', "invalid_request"),
        (b'{"detail":[{"msg":"no"}]}', "upstream_failed"),
        (b'{"error":null,"data":[]}', None),
        (b'{"data":[],"error":"x"}', None),
        (b'{"detail":"low","choices":[{}]}', None),
        (b'{"error":"', None),
        (b"", None),
    ],
)
async def test_errors_in_a_success(held: bytes, kind: str | None) -> None:
    error = success(JSON).error_in(bytearray(held))
    assert (error and error.kind) == kind


@pytest.mark.parametrize("media", [b"text/html; charset=utf-8", b"application/xhtml+xml"])
async def test_a_page_is_no_answer(media: bytes) -> None:
    with pytest.raises(ProxyError, match="answered with a page") as caught:
        success([(TYPE, media)])
    assert caught.value.kind == "upstream_bad_response"


class Body(httpx.AsyncByteStream):
    """A body that tells whether it was closed."""

    closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"Not Found"

    async def aclose(self) -> None:
        self.closed = True


async def passed() -> Passed:
    upload = Upload(Wire(body=b'{"model":"m"}').receive, ModelInJson(), None, 100)
    await upload.look()
    return Passed("/rerank", {"content-type": "application/json"}, upload)


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (200, {"content-type": "text/html"}, "a page"),
        (200, {"content-encoding": "br"}, "content-encoding"),
        (404, {}, "POST /v1/rerank: Not Found"),
        (501, {}, "The server does not answer POST /v1/rerank: Not Found"),
    ],
)
async def test_nothing_stays_open(status: int, headers: dict[str, str], words: str) -> None:
    body = Body()
    server = upstream(lambda _: httpx.Response(status, headers=headers, stream=body))
    wire = Wire()
    answer = PassedAnswer(wire.send, list, 5)
    error = await Passing(await passed(), Route(server, "m")).run(answer)
    assert error is not None
    assert words in error.message
    await until(lambda: body.closed)
    assert (wire.sent, answer.has_output) == ([], False)


async def test_an_answer_that_nobody_began() -> None:
    wire = Wire()
    answer = PassedAnswer(wire.send, list, 5)
    answer.abandon()
    await answer.end()
    assert not await answer.break_off(ProxyError("upstream_failed", "x"))
    assert wire.sent == []


async def test_the_model_is_told_where_it_is_another() -> None:
    request = await passed()
    assert request.notes == ()
    assert Passing(request, Route(upstream(), "m")).notes == ()
    assert Passing(request, Route(upstream(), "n")).notes == ("model=alias",)
    assert request.upload.content == b'{"model":"n"}'
    assert Passing(request, Route(upstream(), "o")).notes == ("model=alias",)
    assert request.upload.content == b'{"model":"o"}'
