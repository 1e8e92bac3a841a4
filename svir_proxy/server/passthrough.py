"""The endpoints beside chat: their bodies pass untouched in both directions, but for the model's name.

Who is asked, with which key, how many at a time, what a failure looks like and how it is logged is as for chat.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.request.model_field import ModelField, ModelInForm, ModelInJson, form_boundary
from svir_proxy.response.error_words import has_error
from svir_proxy.response.json_text import loads
from svir_proxy.response.upstream_error import ErrorReader
from svir_proxy.server.catalog import Catalog, Route
from svir_proxy.server.chat import check_media_type
from svir_proxy.server.client_watch import ClientWatch
from svir_proxy.server.http import Headers, header, stopped
from svir_proxy.server.relay import Relay
from svir_proxy.server.request_log import RequestLog
from svir_proxy.server.transport import UpstreamResponse
from svir_proxy.server.upload import Upload
from svir_proxy.server.upstream import Upstream
from svir_proxy.settings import Settings

PASSED: Final = "POST /v1/{completions, embeddings, rerank, moderations, responses, audio/*, images/*}"
"""The endpoints in words."""
_PATH: Final = re.compile(
    r"/(?:completions|embeddings|rerank|moderations|responses|(?P<media>audio|images)(?:/[A-Za-z0-9_-]+)+)"
)
"""No dots: what goes on to a server as a path leads nowhere else there."""
_FORM: Final = "multipart/form-data"
_EVENTS: Final = "text/event-stream"
_PAGES: Final = ("text/html", "application/xhtml+xml")
_JSON: Final = re.compile(r"application/(?:[\w.-]+\+)?json")
_ERROR: Final = re.compile(rb'\s*\{\s*"(?:error|detail)"\s*:\s*["{\[]')
"""How an error begins that some servers send with a status of 200."""
_KEPT: Final = (b"content-type", b"content-length", b"content-disposition", b"cache-control")
"""Headers of an answer that are passed on."""
_WITHOUT_BODY: Final = (204, 304)
_STREAM_HEADERS: Final[Headers] = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]


def is_passed(path: str) -> bool:
    """Whether *path*, below /v1, is one of the endpoints."""
    return _PATH.fullmatch(path) is not None


class PassThrough:
    """The routes. Raises ProxyError for an answer that has not begun, ClientGone where nobody waits for one."""

    def __init__(self, settings: Settings, catalog: Catalog) -> None:
        self._limit = settings.server.max_request_bytes
        self._origins = frozenset(settings.server.cors_origins)
        self._commit_after = settings.streaming.commit_after
        self._catalog = catalog

    async def __call__(self, scope: Scope, receive: Receive, send: Send, headers: Headers, log: RequestLog) -> None:
        """Answer one request; *headers* go with the answer, whatever it is."""
        field = self._field(scope)
        declared = header(scope, b"content-length")
        upload = Upload(receive, field, int(declared[:20]) if declared.isdigit() else None, self._limit)
        await upload.look()
        log.model = upload.model
        with ClientWatch(scope if upload.is_whole else {}, upload.after) as client:
            route = await self._catalog.route(upload.model)
            log.backend = route.upstream.name
            headers.append(route.upstream.header)
            if upload.put(route.model):
                log.notes = ("model=alias",)
                headers.append((b"x-svir-rewrites", b"model=alias"))
            if (places := route.upstream.places) is None:
                await self._relay(await self._ask(scope, route, upload), client, send, headers, log)
            else:
                async with places:
                    await self._relay(await self._ask(scope, route, upload), client, send, headers, log)

    def _field(self, scope: Scope) -> ModelField:
        """What finds the model in the request's body."""
        media = header(scope, b"content-type")
        if media.partition(";")[0].strip().lower() != _FORM:
            check_media_type(scope)
            return ModelInJson()
        found = _PATH.fullmatch(scope["path"])
        assert found is not None
        if not found["media"]:
            raise ProxyError("unsupported_media_type", f"The content-type must be application/json, not {_FORM!r}.")
        encoding = header(scope, b"content-encoding").lower()
        if encoding not in ("", "identity"):
            raise ProxyError("unsupported_media_type", f"The content-encoding {encoding!r} is not read.")
        self._check_origin(scope)
        boundary = form_boundary(media)
        if boundary is None:
            raise ProxyError("unsupported_media_type", "The content-type of the form has no boundary that can be read.")
        return ModelInForm(boundary)

    def _check_origin(self, scope: Scope) -> None:
        """A page of any origin can send a form without asking; JSON it cannot."""
        origin = header(scope, b"origin")
        if origin and not self._origins & {origin, "*"}:
            raise ProxyError(
                "forbidden_origin",
                f"Pages of {origin!r} may not send forms here; list it under server.cors_origins to allow it.",
            )

    async def _ask(self, scope: Scope, route: Route, upload: Upload) -> _Answer:
        """The answer of the server, whose head has come. Raises ProxyError where it is none that can be passed on."""
        upstream = route.upstream
        given = {"content-type": header(scope, b"content-type"), "accept": header(scope, b"accept") or "*/*"}
        response = await upstream.pass_on(scope["path"], route.model, upload.content, upload.length, given)
        errors = upstream.error_reader(ClientRequest.without_chat(upload.model))
        if not 200 <= response.status < 300:
            error = await upstream.read_error(response, errors)
            raise _reworded(error, response.status, scope["path"])
        try:
            return _Answer(upstream, response, errors)
        except ProxyError:
            response.body.close()
            raise

    async def _relay(self, answer: _Answer, client: ClientWatch, send: Send, headers: Headers, log: RequestLog) -> None:
        log.stream = answer.is_stream
        timeouts = answer.upstream.backend.timeouts
        relay = Relay(
            send, answer.start(headers), timeouts, self._commit_after, decoder=answer.decoder, room=answer.room
        )
        try:
            log.error = await relay.run(answer.body)
        except asyncio.CancelledError:
            if client.gone:
                relay.abandon()
            elif relay.begun:
                log.status, log.error = answer.status, stopped()
                relay.break_off(log.error, events=answer.is_stream)
            raise
        log.error = log.error or answer.error_in(relay.held)
        if log.error is not None and not relay.begun:
            raise log.error
        log.status = answer.status
        if log.error is None or relay.break_off(log.error, events=answer.is_stream):
            client.release()
            await relay.end()


class _Answer:
    """A success of a server: what of its head is passed on, and how its body is to be taken.

    Raises ProxyError where it is nothing that a client could want.
    """

    def __init__(self, upstream: Upstream, response: UpstreamResponse, errors: ErrorReader) -> None:
        self.upstream = upstream
        self.status = response.status
        self.body = response.body
        self._errors = errors
        self._kept = {name: value for raw, value in reversed(response.headers) if (name := raw.lower()) in _KEPT}
        media = self._kept.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        if media in _PAGES:
            raise ProxyError(
                "upstream_bad_response",
                f"Backend {upstream.name!r} answered with a page ({media}): check its base_url.",
            )
        self.is_stream = media == _EVENTS
        self.decoder = upstream.decoder(response)
        if self.decoder is not None or self.status in _WITHOUT_BODY:
            self._kept.pop(b"content-length", None)
        length = int(self._kept.get(b"content-length", b"0"))
        most = upstream.limits.error_body_bytes
        self.room = most if 0 < length <= most and _JSON.fullmatch(media) else 0
        """Bytes of a small JSON answer, which may yet be an error; 0: it is passed on as it comes."""

    def start(self, headers: Headers) -> Message:
        """The beginning of the client's answer, with *headers* of the proxy's own."""
        more = [field for field in _STREAM_HEADERS if self.is_stream and field[0] not in self._kept]
        return {"type": "http.response.start", "status": self.status, "headers": [*self._kept.items(), *more, *headers]}

    def error_in(self, held: bytearray) -> ProxyError | None:
        """The error that a small answer is, if it is one."""
        if not _ERROR.match(held):
            return None
        try:
            value = loads(bytes(held))
        except ValueError:
            return None
        return self._errors.from_stream(value) if has_error(value) else None


def _reworded(error: ProxyError, status: int, path: str) -> ProxyError:
    """What a server's refusal means here: most servers have some of these endpoints only."""
    if status == 404 and error.kind == "upstream_bad_response":
        return replace(error, message=f"POST /v1{path}: {error.message}")
    if status == 501 and error.kind == "upstream_failed":
        # Not implemented, or not with the flags it was started with: no repeat cures that.
        return replace(
            error, kind="invalid_request", message=f"The server does not answer POST /v1{path}: {error.message}"
        )
    return error
