"""``POST /v1/chat/completions``: the request down, the answer back."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from starlette.types import Receive, Scope, Send

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.request.other_models import names_others, other_models
from svir_proxy.server.answer import ClientAnswer, StreamedAnswer, WholeAnswer
from svir_proxy.server.breaker import Breakers
from svir_proxy.server.call_memory import CallMemory
from svir_proxy.server.catalog import Catalog, Route
from svir_proxy.server.client_watch import ClientWatch
from svir_proxy.server.content_rules import ContentRules
from svir_proxy.server.deprecation import Deprecation
from svir_proxy.server.documents import inline_documents
from svir_proxy.server.exchange import Exchange
from svir_proxy.server.failover import Failover
from svir_proxy.server.http import (
    Headers,
    beside,
    fields,
    internal_error,
    random_id,
    read_body,
    send_body,
    stopped,
)
from svir_proxy.server.learned import Learned
from svir_proxy.server.quotas.access import Access
from svir_proxy.server.quotas.tokens import Meter
from svir_proxy.server.remote_images import ImageFetcher, inline_images
from svir_proxy.server.request_record import RequestRecord
from svir_proxy.server.routing import conversation, in_order
from svir_proxy.server.ruled_answer import Ruled
from svir_proxy.server.transcript import Transcript
from svir_proxy.server.upstream import Upstream
from svir_proxy.settings import Settings

_LOGGER: Final = logging.getLogger("svir_proxy")
_JSON: Final = ("application/json", "text/json")
_UNTOLD: Final = re.compile(r"[^ -~]")
_MAX_TOLD: Final = 1000
"""Characters of a header: clients refuse heads of a few kilobytes."""


_Failover = Failover[ClientRequest, ClientAnswer]
_Asking = Exchange | _Failover | Ruled


class Chat:
    """The route. Raises ProxyError for an answer that has not begun, ClientGone where nobody waits for one."""

    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        learned: Learned,
        images: ImageFetcher,
        calls: CallMemory,
        *,
        breakers: Breakers,
        access: Access | None = None,
        rules: ContentRules | None = None,
        deprecation: Deprecation | None = None,
    ) -> None:
        self._settings = settings
        self._max_request_bytes = settings.server.max_request_bytes
        self._show_prompts = settings.logging.show_prompts
        self._catalog = catalog
        self._learned = learned
        self._images = images
        self._calls = calls
        self._breakers = breakers
        self._access = access
        self._rules = rules
        self._deprecation = deprecation

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, headers: Headers, record: RequestRecord
    ) -> None:
        """Answer one request; *headers* go with the answer, whatever it is."""
        given = fields(scope)
        check_media_type(given)
        raw = await read_body(scope, receive, self._max_request_bytes)
        own = record.id if b"x-request-id" not in given else random_id()  # what a client chooses may come again
        request = ClientRequest.from_json(raw, id=own, received=int(time.time()))
        size = len(raw)
        del raw
        record.model, record.stream = request.model, request.stream
        if record.exhibit is not None:
            record.exhibit.asked(request)
        with ClientWatch(scope, receive) as client:
            if self._access is not None:
                request = await _let_in(self._access, request, size, headers, record)
            if self._deprecation is not None:
                self._deprecation.tell(request.model, record.key, headers, record.may)
            routes = self._catalog.routes_at_hand(request.model) or await self._catalog.routes(
                request.model, record.may
            )
            answer = self._stream if request.stream else self._whole
            if len(routes) > 1:
                failover: _Asking = self._failover(request, routes, headers, record)
                if self._rules is not None:
                    failover = self._ruled(failover, routes, record)
                await answer(failover, client, send, headers, record)
                return
            route = routes[0]
            record.backend = route.upstream.name
            headers.append(route.upstream.header)
            if request.part_kinds:
                request = await self._inlined(request, route.upstream)
            exchange = self._exchange(request, route, record)
            asking: _Asking = exchange if self._rules is None else self._ruled(exchange, routes, record)
            if (places := route.upstream.places) is None:
                exchange.begin()
                await answer(asking, client, send, headers, record)
            else:
                async with places:
                    exchange.begin()
                    await answer(asking, client, send, headers, record)

    def _ruled(self, asking: _Asking, routes: tuple[Route, ...], record: RequestRecord) -> _Asking:
        """*asking*, held to the operator's rules where there are any for it."""
        if self._rules is None:
            return asking
        others = names_others(asking.request.body)
        rules = self._rules.of(record.key, record.model, routes, others=others)
        return Ruled(asking, rules, record) if rules else asking

    def _failover(
        self, request: ClientRequest, routes: tuple[Route, ...], headers: Headers, record: RequestRecord
    ) -> _Failover:
        """*request* on its way to the first of *routes* that answers it; *headers* and *record* tell which."""
        routing = self._settings.routing
        key = conversation(request) if routing.keep_conversations else None
        before = tuple(headers)

        async def exchange(request: ClientRequest, route: Route) -> Exchange:
            if request.part_kinds:
                request = await self._inlined(request, route.upstream)
            return self._exchange(request, route, record)

        def tell(upstream: Upstream) -> None:
            record.backend = upstream.name
            headers[:] = (*before, upstream.header)

        return Failover(
            request,
            in_order(routes, lambda route: route.upstream.backend, key),
            exchange=exchange,
            on_asked=tell,
            breakers=self._breakers,
            is_away=self._catalog.is_away,
            seconds=routing.failover_seconds,
        )

    def _exchange(self, request: ClientRequest, route: Route, record: RequestRecord) -> Exchange:
        if record.exhibit is not None:
            from svir_proxy.server.inspector.observed import observed_exchange  # noqa: PLC0415 where somebody looks

            exchange = observed_exchange(request, route, self._learned, self._calls, record)
        else:
            make = Exchange if record.trace is None else record.trace.exchange
            exchange = make(request, route, self._learned, self._calls)
        exchange.meter = record.meter
        return exchange

    async def _inlined(self, request: ClientRequest, upstream: Upstream) -> ClientRequest:
        """*request* with what *upstream* does not fetch or read put in its place."""
        if "image" in request.part_kinds and upstream.backend.remote_images == "inline":
            request = replace(request, body=await inline_images(request.body, self._images.fetch))
        if "file" in request.part_kinds and upstream.profile.request.files in ("rejected", "ignored"):
            request = replace(request, body=await inline_documents(request.body, request.blobs))
        return request

    async def _stream(
        self, exchange: _Asking, client: ClientWatch, send: Send, headers: Headers, record: RequestRecord
    ) -> None:
        def head(noted: Sequence[str]) -> Headers:
            passed = exchange.headers and beside(headers, exchange.headers)
            return [*headers, *passed, *told((*exchange.notes, *noted))]

        answer = StreamedAnswer(exchange.request, send, head, self._settings.streaming, exchange.asked)
        record.answer = answer
        try:
            record.error = await self._run(exchange, answer, record)
        except asyncio.CancelledError:
            if client.gone:
                answer.abandon()
            elif answer.committed:
                record.status, record.error = 200, stopped()
                await answer.break_off(record.error)
            raise
        except Exception:
            if not answer.committed:
                raise
            _LOGGER.exception("request %s failed in the proxy itself", record.id)
            record.error = internal_error(record.id)
        record.notes = (*exchange.notes, *answer.notes)
        if record.error is not None:
            if record.error.kind == "model_not_found":
                record.error = self._catalog.gone(record.model, record.error, record.may)
            if not answer.committed:
                headers += (*(exchange.headers and beside(headers, exchange.headers)), *told(record.notes))
                raise record.error
            answer.fail(record.error)
        record.status = 200
        client.release()
        await answer.end()

    def _run(self, exchange: _Asking, answer: ClientAnswer, record: RequestRecord) -> Awaitable[ProxyError | None]:
        if self._show_prompts:
            return _run_and_tell(exchange, answer, record)
        return exchange.run(answer)

    async def _whole(
        self, exchange: _Asking, client: ClientWatch, send: Send, headers: Headers, record: RequestRecord
    ) -> None:
        record.answer = answer = WholeAnswer(exchange.request, exchange.asked)
        record.error = await self._run(exchange, answer, record)
        record.notes = (*exchange.notes, *answer.notes)
        headers += (*(exchange.headers and beside(headers, exchange.headers)), *told(record.notes))
        if record.error is not None:
            if record.error.kind == "model_not_found":
                record.error = self._catalog.gone(record.model, record.error, record.may)
            raise record.error
        record.status = 200
        client.release()
        await send_body(send, 200, answer.body(), headers)


async def _let_in(
    access: Access, request: ClientRequest, size: int, headers: Headers, record: RequestRecord
) -> ClientRequest:
    """*request* under the limits of its key; raises ProxyError. *size*: bytes of its body."""
    access.check(record, request.model, other_models(request.body))

    def meter() -> Meter:
        blobs = request.blobs
        return Meter(size) if blobs is None else Meter(size - blobs.size, blobs.count)

    notes = await access.admit(record, headers, meter)
    if record.meter is None and not notes:
        return request
    return replace(request, is_counted=record.meter is not None, notes=(*request.notes, *notes))


async def _run_and_tell(exchange: _Asking, answer: ClientAnswer, record: RequestRecord) -> ProxyError | None:
    transcript = Transcript(exchange.request, answer)
    try:
        return await exchange.run(transcript)
    finally:
        transcript.write(record.id)


def check_media_type(given: Mapping[bytes, bytes]) -> None:
    """Only JSON: what a browser may send without asking (text/plain, forms) is no request to a model."""
    if given.get(b"content-type") == b"application/json" and b"content-encoding" not in given:
        return  # as all but a few say it
    media = given.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    if media not in _JSON and not media.endswith("+json"):
        said = f"not {media!r}" if media else "and the request has none"
        raise ProxyError("unsupported_media_type", f"The content-type must be application/json, {said}.")
    encoding = given.get(b"content-encoding", b"").decode("latin-1").lower()
    if encoding not in ("", "identity"):
        raise ProxyError(
            "unsupported_media_type", f"The content-encoding {encoding!r} is not read; send the body as it is."
        )


@lru_cache(maxsize=256)
def told(notes: tuple[str, ...]) -> tuple[tuple[bytes, bytes], ...]:
    """The header that tells what was changed; names that a client made up cannot end its line.

    Most are told again and again.
    """
    if not notes:
        return ()
    text = ", ".join(notes)[:_MAX_TOLD]
    return ((b"x-svir-rewrites", _UNTOLD.sub("?", text).encode("ascii")),)
