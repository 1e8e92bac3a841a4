"""One backend as the proxy talks to it: its URL, its key, its connections. httpx's exceptions end here."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import ssl
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

import httpx

from svir_proxy.blobs import Blobs
from svir_proxy.client_request import Body, ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.response.json_text import dumps
from svir_proxy.response.normalizer import Limits
from svir_proxy.response.upstream_error import ErrorReader
from svir_proxy.server.http import Headers
from svir_proxy.server.places import Places
from svir_proxy.server.pulled_response import PulledResponse
from svir_proxy.server.transport import (
    RESPONSE,
    Decoder,
    PostHead,
    RequestStream,
    UpstreamResponse,
    UpstreamTransport,
    content_decoder,
    post_head,
    usual_context,
)
from svir_proxy.settings import Backend, LimitSettings

_ACCEPT: Final = {"accept": "application/json, text/event-stream", "accept-encoding": "identity"}
_LIST_SECONDS: Final = 10.0
"""How long a model list may take."""
_SECRET_LENGTH: Final = 8
"""Characters from which on a part of a header's value is taken for a secret: ``1`` and ``true`` are none."""
_CHAT: Final = "/chat/completions"
_PORTS: Final = {"http": 80, "https": 443}
_MAX_HEADS: Final = 64
"""Heads that are kept: clients have few that differ, but may make up any number."""
_NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})
_LONGEST_PASSED: Final = 300
"""Bytes of a header's value that is passed on."""
_CLOSED: Final = re.compile(r"closed the connection|disconnected")
"""How this project's transport and httpx's own say that no answer came, as against one that is no HTTP."""


class Upstream:
    """A backend and its connections. Built in the running loop; `close` in the end."""

    def __init__(
        self, backend: Backend, limits: LimitSettings, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.backend = backend
        self.name = backend.name
        self.header = (b"x-svir-backend", self.name.encode("latin-1"))
        """What tells a client who answered."""
        self.profile = backend.loaded_profile
        self.limits = limits
        self.places = (
            Places(backend.name, backend.max_requests, backend.max_waiting, backend.timeouts.queue)
            if backend.max_requests is not None
            else None
        )
        """What bounds the requests at a time; None: nothing."""
        self.normalizer_limits = Limits(limits.max_event_bytes, limits.max_answer_bytes, limits.held_text_bytes)
        """What an answer may hold back of the proxy's memory."""
        own = None if transport is not None else UpstreamTransport(ssl_context=_ssl_context(backend))
        self._transport = cast(httpx.AsyncBaseTransport, transport or own)
        self._connect_seconds = backend.timeouts.connect
        endpoint = self.profile.endpoint
        key = backend.key.get_secret_value() if backend.key is not None else ""
        values = [value.get_secret_value() for value in backend.headers.values()]
        parts = [part for value in values for part in (value, *value.split()) if len(part) >= _SECRET_LENGTH]
        self.passed_names = frozenset(name.encode("ascii") for name in self.profile.response.headers)
        """Headers of its answers that are passed on, in lower case."""
        self._secrets = tuple(sorted({key, *parts} - {""}, key=len, reverse=True))
        headers: dict[str, str] = {}
        if key and endpoint.auth == "bearer":
            headers["authorization"] = f"Bearer {key}"
        elif key and endpoint.auth == "api-key":
            headers["api-key"] = key
        headers |= {name.lower(): value.get_secret_value() for name, value in backend.headers.items()}
        self._query = f"?{urlencode(endpoint.query)}" if endpoint.query else ""
        self._chat_path = endpoint.chat_path
        self._chat_url = None if "{model}" in endpoint.chat_path else self._url(endpoint.chat_path)
        self._models_url = self._url(endpoint.models_path)
        host = self._models_url.netloc.decode("ascii")
        self.address = (self._models_url.host, self._models_url.port or _PORTS[self._models_url.scheme])
        """Host and port of the server."""
        self._own_headers = {"host": host, **headers}
        headers = {"host": host, **_ACCEPT, **headers}
        self._get_headers = httpx.Headers(headers, encoding="latin-1")
        self._post_headers = httpx.Headers({**headers, "content-type": "application/json"}, encoding="latin-1")

        self._own = own
        self._heads: dict[tuple[object, ...], PostHead] = {}  # of requests that are passed on

        # What all but a few requests take. Other transports, and models in the path, are asked by httpx's objects.
        self._head: PostHead | None = None
        if own is not None and self._chat_url is not None:
            self._head = post_head(self._chat_url, self._post_headers)

    def error_reader(self, request: ClientRequest, make: type[ErrorReader] = ErrorReader) -> ErrorReader:
        """Reads this backend's errors for *request*; of the class *make*."""
        return make(request, self.profile.errors, self._secrets)

    def chat(
        self, body: Body, model: str, blobs: Blobs | None = None, more: Mapping[str, str] | None = None
    ) -> Coroutine[Any, Any, UpstreamResponse]:
        """Send a chat request; the response comes with its head, whatever its status. The caller closes it.

        What takes no waiting is done now, and most requests are sent by that; the rest is done where the result is
        awaited, which must be in the same turn of the loop. *blobs* are the payloads that markers in *body* stand for,
        *more* the headers that this request alone has. Only connecting has a limit of time of its own. Raises
        ProxyError where there is no response.
        """
        try:
            content = dumps(body)
        except ValueError as exc:
            # The proxy cannot, which teaches nothing about the server.
            raise ProxyError("invalid_json", f"The request cannot be passed on: {exc}.") from None
        if (head := self._head) is not None and blobs is None:
            assert self._own is not None
            try:
                asked = self._own.post(head if more is None else head.adding(more), content, self._connect_seconds)
            except httpx.TransportError as exc:
                raise _in_words(self.name, exc) from exc
            return self._answered(asked)
        url = self._chat_url or self._url(self._chat_path.replace("{model}", quote(model, safe="")))
        headers = self._post_headers if more is None else httpx.Headers({**self._post_headers, **more}, "latin-1")
        if blobs is None:
            return self._send(httpx.Request("POST", url, headers=headers, content=content))
        pieces = blobs.fill(content)
        request = httpx.Request("POST", url, headers=headers, stream=RequestStream(pieces))
        request.headers["content-length"] = str(sum(map(len, pieces)))
        request.headers.pop("transfer-encoding", None)
        return self._send(request)

    async def pass_on(
        self,
        path: str,
        model: str,
        content: bytes | httpx.AsyncByteStream,
        length: int | None,
        given: Mapping[str, str],
        *,
        more: Mapping[str, str] | None = None,
    ) -> UpstreamResponse:
        """POST a body as it is to *path*, which stands beside the profile's chat path; else as `chat`.

        *length* is that of the *content* in bytes; None: it is sent in chunks. *given* are the client's headers that go
        along, *more* those that this request alone has, names in lower case. Raises what reading the content raises,
        and ProxyError also where the server takes no more of it for ``timeouts.idle`` or does not begin to answer
        within ``timeouts.first_output`` from its end.
        """
        timeouts = self.backend.timeouts
        if self._own is not None and isinstance(content, bytes):
            told = (path, model if "{model}" in self._chat_path else "", *given.items())
            head = self._heads.get(told)
            try:
                if head is None:
                    head = post_head(self._passed_url(path, model), self._passed_headers(given))
                    if len(self._heads) >= _MAX_HEADS:
                        self._heads.clear()  # each upload of a form has one of its own
                    self._heads[told] = head
                return await self._own.post(
                    head if more is None else head.adding(more),
                    content,
                    self._connect_seconds,
                    read=timeouts.first_output,
                    write=timeouts.idle,
                )
            except httpx.TransportError as exc:
                raise _in_words(self.name, exc) from exc
        headers = self._passed_headers(given)
        headers.update(more)
        if length is not None:
            headers["content-length"] = str(length)
        url = self._passed_url(path, model)
        if isinstance(content, bytes):
            request = httpx.Request("POST", url, headers=headers, content=content)
        else:
            request = httpx.Request("POST", url, headers=headers, stream=content)
        return await self._send(request, read=timeouts.first_output, write=timeouts.idle)

    async def list_models(self) -> tuple[int, bytes]:
        """Status and body of the server's model list; raises ProxyError where there is none."""
        request = httpx.Request("GET", self._models_url, headers=self._get_headers)
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                response = await self._send(request)
                body = bytearray()
                await self._read(response, body, self.limits.max_answer_bytes)
                return response.status, bytes(body)
        except TimeoutError:
            raise ProxyError(
                "upstream_timeout", f"Backend {self.name!r} sent no whole model list within {_LIST_SECONDS:g} s."
            ) from None

    async def read_error(self, response: UpstreamResponse, errors: ErrorReader) -> ProxyError:
        """The error in a response that is no success; waits for its body only so long, and closes it."""
        limit = self.limits.error_body_bytes
        body = bytearray()
        with contextlib.suppress(TimeoutError, ProxyError):  # what came until then may say enough
            async with asyncio.timeout(self.limits.error_body_seconds):
                await self._read(response, body, limit)
        return errors.from_response(response.status, dict(httpx.Headers(response.headers)), bytes(body[:limit]))

    def decoder(self, response: UpstreamResponse) -> Decoder | None:
        """What undoes the response's content-encoding, if it has one; raises ProxyError where nothing can."""
        if not response.is_encoded:
            return None
        try:
            return content_decoder(httpx.Headers(response.headers), max_bytes=None)
        except httpx.DecodingError as exc:
            raise _in_words(self.name, exc) from exc

    def passed_headers(self, response: UpstreamResponse) -> Headers:
        """The headers of *response* that are passed on, one of each name."""
        named = ((raw.lower(), value[:_LONGEST_PASSED]) for raw, value in response.headers)
        return list({name: value for name, value in named if name in self.passed_names}.items())

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    def _passed_url(self, path: str, model: str) -> httpx.URL:
        base = self._chat_path.removesuffix(_CHAT) if self._chat_path.endswith(_CHAT) else "/v1"
        return self._url(base.replace("{model}", quote(model, safe="", errors="replace")) + path)

    def _passed_headers(self, given: Mapping[str, str]) -> httpx.Headers:
        return httpx.Headers({"accept-encoding": "identity", **given, **self._own_headers}, encoding="latin-1")

    def _url(self, path: str) -> httpx.URL:
        return httpx.URL(f"{self.backend.root}{path}{self._query}")

    async def _answered(self, asked: Awaitable[UpstreamResponse]) -> UpstreamResponse:
        try:
            return await asked
        except httpx.TransportError as exc:
            raise _in_words(self.name, exc) from exc

    async def _send(
        self, request: httpx.Request, *, read: float | None = None, write: float | None = None
    ) -> UpstreamResponse:
        request.extensions["timeout"] = {"connect": self._connect_seconds, "read": read, "write": write, "pool": None}
        try:
            response = await self._transport.handle_async_request(request)
        except httpx.TransportError as exc:
            raise _in_words(self.name, exc) from exc
        return response.extensions.get(RESPONSE) or cast(UpstreamResponse, PulledResponse(response))

    async def _read(self, response: UpstreamResponse, into: bytearray, limit: int) -> None:
        """Read the whole body *into* a buffer and close it; raises ProxyError past *limit* bytes, or if it breaks."""
        try:
            decoder = self.decoder(response)
            async for data in response:
                for piece in (data,) if decoder is None else decoder.pieces(data):
                    into += piece
                    if len(into) > limit:
                        raise ProxyError(
                            "upstream_bad_response", f"Backend {self.name!r} sent a body of more than {limit} bytes."
                        )
        except (httpx.TransportError, httpx.DecodingError) as exc:
            raise _in_words(self.name, exc) from exc
        finally:
            await response.aclose()


def _ssl_context(backend: Backend) -> ssl.SSLContext | None:
    """What verifies the server; None: it has no TLS."""
    if not backend.base_url.startswith("https:"):
        return None
    if not backend.verify_tls:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    return usual_context() if backend.ca_file is None else ssl.create_default_context(cafile=str(backend.ca_file))


def _in_words(backend: str, exc: httpx.RequestError) -> ProxyError:
    """What httpx's exception means to a client."""
    if isinstance(exc, (httpx.ConnectTimeout, httpx.PoolTimeout)):
        return ProxyError("upstream_timeout", f"Backend {backend!r} could not be connected in time: {exc}.")
    if isinstance(exc, (httpx.ReadTimeout, httpx.WriteTimeout)):
        setting = "first_output" if isinstance(exc, httpx.ReadTimeout) else "idle"
        return ProxyError("upstream_timeout", f"Backend {backend!r}: {exc} (timeouts.{setting} of the backend).")
    if isinstance(exc, httpx.TimeoutException):
        return ProxyError("upstream_timeout", f"Backend {backend!r} did not answer in time: {exc}.")
    if isinstance(exc.__cause__, OSError) and exc.__cause__.errno in _NO_DESCRIPTOR:
        return ProxyError(
            "overloaded",
            f"The proxy has too many files open for one more connection to backend {backend!r} (ulimit -n).",
            retry_after=1,
        )
    if isinstance(exc, (httpx.ConnectError, httpx.UnsupportedProtocol)):
        return ProxyError(
            "upstream_unreachable", f"Backend {backend!r} cannot be reached: {exc}. Is the server running?"
        )
    if isinstance(exc, (httpx.RemoteProtocolError, httpx.DecodingError)):
        kind = "upstream_failed" if _CLOSED.search(str(exc)) else "upstream_bad_response"
        return ProxyError(kind, f"Backend {backend!r} gave no valid answer: {exc}.")
    return ProxyError("upstream_failed", f"The connection to backend {backend!r} failed: {exc}.")
