"""One request beside chat on its way to one backend, and the answer that passes back."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from starlette.types import Message, Send

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.response.error_words import has_error
from svir_proxy.response.json_text import loads
from svir_proxy.response.upstream_error import ErrorReader
from svir_proxy.server.catalog import Route
from svir_proxy.server.http import Headers
from svir_proxy.server.quotas.passed_tokens import PassedMeter
from svir_proxy.server.relay import Relay
from svir_proxy.server.transport import UpstreamResponse
from svir_proxy.server.upload import Upload
from svir_proxy.server.upstream import Upstream

_EVENTS: Final = "text/event-stream"
_PAGES: Final = ("text/html", "application/xhtml+xml")
_JSON: Final = re.compile(r"application/(?:[\w.-]+\+)?json")
_ERROR: Final = re.compile(rb'\s*\{\s*"(?:error|detail)"\s*:\s*["{\[]')
"""How an error begins that some servers send with a status of 200."""
_KEPT: Final = (b"content-type", b"content-length", b"content-disposition", b"cache-control")
"""Headers of an answer that are passed on."""
_WITHOUT_BODY: Final = (204, 304)
_STREAM_HEADERS: Final[Headers] = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]


class Passed(NamedTuple):
    """A client's request.

    Attributes:
        path: Below /v1.
        headers: Those that go along, names in lower case.
        upload: The body, in which the model was looked for.
        meter: What its tokens are counted with; None: they are not.
        notes: What is to be told of it.
    """

    path: str
    headers: dict[str, str]
    upload: Upload
    meter: PassedMeter | None = None
    notes: tuple[str, ...] = ()


class PassedAnswer:
    """The client's side of an answer. *head* gives the headers that are the proxy's own, asked for when it begins.

    *meter* counts what comes of it.
    """

    gathers = False

    def __init__(
        self, send: Send, head: Callable[[], Headers], commit_after: float, meter: PassedMeter | None = None
    ) -> None:
        self._send = send
        self._head = head
        self._commit_after = commit_after
        self._meter = meter
        self._relay: Relay | None = None
        self.status = 0
        """Of the answer."""
        self.is_stream = False
        """Whether the answer is a stream of events."""

    @property
    def has_output(self) -> bool:
        """Whether the client has seen anything: after that a failure has no status of its own."""
        return self._relay is not None and self._relay.begun

    def restart(self) -> None:
        """Another backend's answer takes the place of this one."""
        self._relay = None

    async def fill(self, success: Success) -> ProxyError | None:
        """Pass *success* on, whose end is left to `end`; the error where it is not whole, or is one."""
        self.status, self.is_stream = success.status, success.is_stream
        timeouts = success.upstream.backend.timeouts
        relay = self._relay = Relay(
            self._send,
            success.start(self._head()),
            timeouts,
            self._commit_after,
            decoder=success.decoder,
            room=success.room,
            meter=self._meter,
        )
        return await relay.run(success.body) or success.error_in(relay.held)

    async def end(self) -> None:
        """End the answer, and wait until the client has all of it."""
        if self._relay is not None:
            await self._relay.end()

    async def break_off(self, error: ProxyError) -> bool:
        """End an answer that has begun with *error*; whether that was possible. See `Relay.break_off`."""
        return self._relay is not None and await self._relay.break_off(error, events=self.is_stream)

    def abandon(self) -> None:
        """The client is gone."""
        if self._relay is not None:
            self._relay.abandon()


class Passing:
    """*request* on its way along *route*."""

    def __init__(self, request: Passed, route: Route) -> None:
        self.request = request
        self._route = route
        self._more: Mapping[str, str] | None = None  # headers that go along
        self.notes = (*request.notes, "model=alias") if request.upload.put(route.model) else request.notes
        """What was changed in the request."""
        self.headers: Headers = []
        """Headers of the server's answer that are passed on."""

    async def run(self, answer: PassedAnswer) -> ProxyError | None:
        """Fill *answer*; the error where it is not whole."""
        try:
            success = await self._ask()
        except ProxyError as error:
            return error
        return await answer.fill(success)

    async def _ask(self) -> Success:
        """The server's answer, whose head has come. Raises ProxyError where it is none that can be passed on."""
        (path, _, upload, meter, _), upstream = self.request, self._route.upstream
        if meter is not None:
            meter.asked = True
        response = await self._respond()
        if upstream.passed_names:
            self.headers = upstream.passed_headers(response)
        errors = upstream.error_reader(ClientRequest.without_chat(upload.model))
        if not 200 <= response.status < 300:
            raise _reworded(await upstream.read_error(response, errors), response.status, path)
        try:
            return Success(upstream, response, errors)
        except ProxyError:
            response.close()
            raise

    def _respond(self) -> Awaitable[UpstreamResponse]:
        (path, headers, upload, *_), model = self.request, self._route.model
        return self._route.upstream.pass_on(path, model, upload.content, upload.length, headers, more=self._more)


class Success:
    """A success of a server: what of its head is passed on, and how its body is to be taken.

    Raises ProxyError where it is nothing that a client could want.
    """

    def __init__(self, upstream: Upstream, response: UpstreamResponse, errors: ErrorReader) -> None:
        self.upstream = upstream
        self.status = response.status
        self.body = response
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
