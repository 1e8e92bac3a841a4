"""What a backend is sent, and what becomes of everything that can go wrong on the way."""

from __future__ import annotations

import asyncio
import errno
import gzip
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.server.pulled_response import PulledResponse
from svir_proxy.server.transport import UpstreamResponse
from svir_proxy.server.upstream import Upstream
from svir_proxy.settings import Backend, LimitSettings
from tests.server.conftest import Clock
from tests.server.support import client_request, whole
from tests.server.transport.raw_server import Certificate, RawServer, soon, until

pytestmark = pytest.mark.usefixtures("leaves_nothing")

KEY: Final = "the-upstream-key"


class Stream(httpx.AsyncByteStream):
    """A body that is watched; it stalls before its end, or breaks, or is whole."""

    def __init__(self, *pieces: bytes, end: Exception | None = None, stalls: bool = False) -> None:
        self._pieces, self._end, self._stalls = pieces, end, stalls
        self.closed = False
        self.taken = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            self.taken += 1
            yield piece
        if self._stalls:
            await asyncio.Event().wait()
        if self._end is not None:
            raise self._end

    async def aclose(self) -> None:
        self.closed = True


class Network:
    """Answers with what it is given, and keeps the requests."""

    def __init__(self, answer: httpx.Response | Exception | None = None) -> None:
        self._answer = answer or httpx.Response(200, json={"data": []})
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def upstream(network: Callable[[httpx.Request], httpx.Response], **backend: Any) -> Upstream:
    values = {"name": "b", "base_url": "http://server:81/v1", **backend}
    return Upstream(Backend.model_validate(values), LimitSettings(error_body_bytes=100), httpx.MockTransport(network))


async def sent(**backend: Any) -> tuple[httpx.Request, httpx.Request]:
    """The request for a chat and the one for the model list."""
    network = Network()
    made = upstream(network, **backend)
    await made.chat({"model": "a/b", "é": "ü"}, "a/b c")
    await made.list_models()
    assert isinstance(await made.chat({}, "m"), PulledResponse)
    return network.requests[0], network.requests[1]


async def test_requests() -> None:
    chat, models = await sent(api_key=KEY)
    assert (chat.method, str(chat.url)) == ("POST", "http://server:81/v1/chat/completions")
    assert (models.method, str(models.url)) == ("GET", "http://server:81/v1/models")
    common = {
        "host": "server:81",
        "accept": "application/json, text/event-stream",
        "accept-encoding": "identity",
        "authorization": f"Bearer {KEY}",
    }
    assert dict(models.headers) == common
    assert dict(chat.headers) == {**common, "content-type": "application/json", "content-length": "25"}
    assert chat.content == '{"model":"a/b","é":"ü"}'.encode()


@pytest.mark.parametrize(
    ("backend", "headers"),
    [
        ({}, {}),
        ({"api_key": KEY}, {"authorization": f"Bearer {KEY}"}),
        ({"api_key": KEY, "overrides": {"endpoint": {"auth": "api-key"}}}, {"api-key": KEY}),
        ({"api_key": KEY, "overrides": {"endpoint": {"auth": "none"}}}, {}),
        ({"api_key": KEY, "headers": {"Authorization": "Own"}}, {"authorization": "Own"}),
        ({"headers": {"X-Title": "\xe9"}}, {"x-title": "\xe9"}),
    ],
)
async def test_keys_and_headers(backend: dict[str, Any], headers: dict[str, str]) -> None:
    known = {"host", "accept", "accept-encoding", "content-type", "content-length"}
    for request in await sent(**backend):
        raw = [(name.decode().lower(), value.decode("latin-1")) for name, value in request.headers.raw]
        assert {name: value for name, value in raw if name not in known} == headers


async def test_paths_of_the_profile() -> None:
    endpoint = {"chat_path": "/deployments/{model}/chat", "models_path": "/models", "query": {"api-version": "1 2"}}
    chat, models = await sent(overrides={"endpoint": endpoint})
    assert chat.url.raw_path == b"/deployments/a%2Fb%20c/chat?api-version=1+2"
    assert models.url.raw_path == b"/models?api-version=1+2"


def caused(error: httpx.ConnectError, cause: OSError) -> httpx.ConnectError:
    """As the transport raises it."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (httpx.ConnectError("refused"), "upstream_unreachable"),
        (caused(httpx.ConnectError("no"), OSError(errno.ECONNREFUSED, "refused")), "upstream_unreachable"),
        (caused(httpx.ConnectError("no"), OSError(errno.EMFILE, "too many open files")), "overloaded"),
        (caused(httpx.ConnectError("no"), OSError(errno.ENFILE, "too many open files")), "overloaded"),
        (httpx.UnsupportedProtocol("no"), "upstream_unreachable"),
        (httpx.ConnectTimeout("late"), "upstream_timeout"),
        (httpx.PoolTimeout("late"), "upstream_timeout"),
        (httpx.ReadTimeout("late"), "upstream_timeout"),
        (httpx.WriteTimeout("late"), "upstream_timeout"),
        (httpx.ReadError("reset"), "upstream_failed"),
        (httpx.RemoteProtocolError("the server closed the connection without a response"), "upstream_failed"),
        (httpx.RemoteProtocolError("Server disconnected without sending a response."), "upstream_failed"),
        (httpx.RemoteProtocolError("the server's response is not valid HTTP: x"), "upstream_bad_response"),
        (httpx.LocalProtocolError("no"), "upstream_failed"),
    ],
)
async def test_no_response(raised: Exception, kind: str) -> None:
    made = upstream(Network(raised), api_key=KEY)
    for asked in (made.chat({}, "m"), made.list_models()):
        with pytest.raises(ProxyError) as caught:
            await asked
        assert caught.value.kind == kind
        assert "'b'" in caught.value.message
        assert KEY not in caught.value.message
        assert (caught.value.retry_after is not None) is (kind == "overloaded")


async def test_a_request_that_nobody_could_read_is_not_sent() -> None:
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    network = Network()
    with pytest.raises(ProxyError) as caught:
        await upstream(network).chat({"metadata": nested}, "m")
    assert (caught.value.kind, network.requests) == ("invalid_json", [])


ERROR: Final = b'{"error": {"message": "its own words"}}'


@pytest.mark.parametrize(
    ("stream", "headers", "words"),
    [
        (Stream(ERROR), {}, "its own words"),
        (Stream(ERROR[:20], ERROR[20:]), {}, "its own words"),
        (Stream(gzip.compress(ERROR)), {"content-encoding": "gzip"}, "its own words"),
        (Stream(ERROR, end=httpx.ReadError("reset")), {}, "its own words"),
        (Stream(ERROR, stalls=True), {}, "its own words"),
        (Stream(stalls=True), {}, "503"),
        (Stream(b"y" * 60, b"z" * 60, b"never read", stalls=True), {}, "y" * 60 + "z" * 40),
        (Stream(ERROR), {"content-encoding": "br"}, "503"),
        (Stream(b"no gzip"), {"content-encoding": "gzip"}, "503"),
        (Stream(), {}, "503"),
    ],
    ids=["whole", "cut", "gzip", "broken", "stalled at its end", "stalled", "too long", "br", "damaged", "empty"],
)
async def test_an_errors_body_is_waited_for_only_so_long(
    stream: Stream, headers: dict[str, str], words: str, clock: Clock
) -> None:
    made = upstream(Network(httpx.Response(503, headers=headers, stream=stream)))
    reading = asyncio.create_task(made.read_error(await made.chat({}, "m"), made.error_reader(client_request())))
    for _ in range(20):
        await asyncio.sleep(0)
    clock.advance(2.1)
    error = await soon(reading)
    assert (error.kind, stream.closed) == ("upstream_unavailable", True)
    assert words in error.message
    assert "never" not in error.message


@pytest.mark.parametrize(
    ("backend", "said", "heard"),
    [
        ({"api_key": KEY}, f"bad key {KEY}", "bad key [key]"),
        ({"api_key": "k3y"}, "bad key k3y", "bad key [key]"),
        ({"headers": {"Authorization": "Token abcdefgh12"}}, "token abcdefgh12 is bad", "token [key] is bad"),
        ({"headers": {"X-Flag": "1", "X-Mode": "true"}}, "1 is not true", "1 is not true"),
        ({}, "nothing to hide", "nothing to hide"),
    ],
)
async def test_no_secret_is_in_an_error(backend: dict[str, Any], said: str, heard: str) -> None:
    made = upstream(Network(httpx.Response(401, json={"error": {"message": said}})), **backend)
    error = await made.read_error(await made.chat({}, "m"), made.error_reader(client_request()))
    assert (error.kind, error.status) == ("upstream_auth_failed", 502)
    assert error.message.endswith(heard)


async def test_a_model_list() -> None:
    stream = Stream(b"a", b"b")
    made = upstream(Network(httpx.Response(404, stream=stream)))
    assert await made.list_models() == (404, b"ab")
    assert stream.closed


@pytest.mark.parametrize(
    ("stream", "headers", "kind"),
    [
        (Stream(stalls=True), {}, "upstream_timeout"),
        (Stream(b"a", stalls=True), {}, "upstream_timeout"),
        (Stream(b"a", end=httpx.ReadError("reset")), {}, "upstream_failed"),
        (Stream(b"a"), {"content-encoding": "br"}, "upstream_bad_response"),
        (Stream(*[b"x" * (1 << 20)] * 100), {}, "upstream_bad_response"),
    ],
    ids=["stalled", "stalled midway", "broken", "br", "endless"],
)
async def test_no_model_list(stream: Stream, headers: dict[str, str], kind: str, clock: Clock) -> None:
    made = upstream(Network(httpx.Response(200, headers=headers, stream=stream)))
    reading = asyncio.create_task(made.list_models())
    await until(lambda: reading.done() or stream.taken == len(stream._pieces))
    for _ in range(5):
        await asyncio.sleep(0)
    clock.advance(11)
    with pytest.raises(ProxyError) as caught:
        await soon(reading)
    assert (caught.value.kind, stream.closed) == (kind, True)
    assert stream.taken < 70


@pytest.mark.parametrize(("encoding", "reads"), [("", None), ("identity", None), ("gzip", True), ("br", False)])
async def test_the_encoding_of_an_answer(encoding: str, reads: bool | None) -> None:
    headers = {"content-encoding": encoding} if encoding else {}
    made = upstream(Network(httpx.Response(200, headers=headers, stream=Stream())))
    response = await made.chat({}, "m")
    if reads is False:
        with pytest.raises(ProxyError) as caught:
            made.decoder(response)
        assert caught.value.kind == "upstream_bad_response"
        return
    decoder = made.decoder(response)
    assert (decoder is not None and decoder(gzip.compress(b"x"))) == (b"x" if reads else False)


async def test_it_talks_to_a_real_server() -> None:
    server = RawServer()
    await server.start()
    backend = Backend.model_validate({"name": "b", "base_url": server.url().removesuffix("/chat/completions")})
    made = Upstream(backend, LimitSettings())
    asking = asyncio.create_task(made.chat({"model": "m"}, "m"))
    peer = await server.accept()
    await peer.answer(whole({}))
    response = await soon(asking)
    assert isinstance(response, UpstreamResponse)
    response.close()
    await soon(made.close())
    await peer.gone()
    await server.stop()


@pytest.mark.parametrize(
    ("settings", "accepts"),
    [({}, False), ({"verify_tls": False}, True), ({"ca_file": "PEM"}, True)],
    ids=["unknown authority", "unchecked", "its authority"],
)
async def test_certificates(settings: Mapping[str, Any], accepts, tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.pem, certificate.key)
    server = RawServer()
    await server.start(context)
    more = {name: str(certificate.pem) if value == "PEM" else value for name, value in settings.items()}
    backend = Backend.model_validate({"name": "b", "base_url": f"https://localhost:{server.port}", **more})
    made = Upstream(backend, LimitSettings())
    asking = asyncio.create_task(made.list_models())
    if accepts:
        await (await server.accept()).answer(whole(b"yes"))
        assert await soon(asking) == (200, b"yes")
    else:
        with pytest.raises(ProxyError) as caught:
            await soon(asking)
        assert caught.value.kind == "upstream_unreachable"
    await soon(made.close())
    await server.stop()


@pytest.mark.parametrize("own", [True, False], ids=["over sockets", "another transport"])
@pytest.mark.parametrize("large", [True, False], ids=["with a photo", "small"])
async def test_headers_of_one_request_are_of_no_other(own: bool, large: bool) -> None:
    """Such as its trace context."""
    more = {"traceparent": "00-1-2-01", "tracestate": "a=b"}
    url = f"data:image/png;base64,{'A' * 20_000 if large else 'A'}"
    content = [{"type": "image_url", "image_url": {"url": url}}]
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": content}]}).encode()
    request = ClientRequest.from_json(raw, id="r", received=1)
    assert (request.blobs is not None) is large
    heads: list[dict[str, str]] = []
    if own:
        server = RawServer()
        await server.start()
        made = Upstream(Backend(name="b", base_url=f"http://127.0.0.1:{server.port}"), LimitSettings())
        for given in (more, None):
            asked = asyncio.create_task(made.chat(request.body, "m", request.blobs, given))
            peer = await server.accept()
            lines = (
                (await peer.answer(whole({}, 200, "connection: close"))).split(b"\r\n\r\n")[0].decode().split("\r\n")
            )
            heads.append(dict(line.split(": ", 1) for line in lines[1:]))
            (await soon(asked)).close()
        await made.close()
        await server.stop()
    else:
        network = Network()
        made = upstream(network)
        for given in (more, None):
            (await made.chat(request.body, "m", request.blobs, given)).close()
        heads = [dict(request.headers) for request in network.requests]
    first, second = heads
    assert {name: first.pop(name) for name in more} == more
    assert first == second
