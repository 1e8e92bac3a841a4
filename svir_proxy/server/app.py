"""The proxy as an ASGI application: the table of contents of the server side.

Every request passes the gate, gets an id and leaves a line in the log. Chat goes its own way, past everything that
costs time per event; Starlette's router has the rest.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import httpx
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from svir_proxy import __version__
from svir_proxy.errors import ProxyError
from svir_proxy.server.breaker import Breakers
from svir_proxy.server.call_memory import CallMemory
from svir_proxy.server.catalog import Catalog
from svir_proxy.server.chat import Chat
from svir_proxy.server.content_rules import ContentRules
from svir_proxy.server.deprecation import Deprecation
from svir_proxy.server.gate import METRICS_PATH, Gate
from svir_proxy.server.generations import Generations
from svir_proxy.server.health import Health
from svir_proxy.server.http import (
    ClientGone,
    Headers,
    fields,
    internal_error,
    random_id,
    send_error,
    send_json,
    stopped,
    without_body,
)
from svir_proxy.server.inspector import PATH as INSPECTOR
from svir_proxy.server.learned import Learned
from svir_proxy.server.ledger import Ledger
from svir_proxy.server.metrics.endpoint import MetricsEndpoint
from svir_proxy.server.metrics.metrics import Metrics, Place
from svir_proxy.server.passthrough import PASSED, PassThrough, is_passed
from svir_proxy.server.quotas.access import Access
from svir_proxy.server.quotas.rate_headers import RATE_HEADERS
from svir_proxy.server.remote_images import ImageFetcher
from svir_proxy.server.request_log import write_line
from svir_proxy.server.request_record import RequestRecord
from svir_proxy.server.upstream import Upstream
from svir_proxy.settings import Settings, unchanged

if TYPE_CHECKING:
    from svir_proxy.server.inspector.routes import Inspector
    from svir_proxy.server.tracing.tracing import Tracing

_Json = tuple[int, Any]
"""Status and body."""

_LOGGER: Final = logging.getLogger("svir_proxy")
_CHAT_PATH: Final = "/chat/completions"
_USUAL_PATH: Final = "/v1/chat/completions"
_PREFIX: Final = re.compile(r"/+(?:v1(?:/+|$))?")
"""People write base URLs with and without /v1, and with a slash at the end."""
_TOLD: Final = ("x-request-id", "x-svir-backend", "x-svir-rewrites", "x-ai-model-deprecated")
"""Headers of an answer that pages of other origins may read."""
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_ENDPOINTS: Final = (
    f"POST /v1/chat/completions, {PASSED}, GET /v1/models, GET /v1/models/{{id}}, GET /healthz, GET /readyz"
)


def create_app(
    settings: Settings, transport: httpx.AsyncBaseTransport | None = None, place: Place | None = None
) -> Generations[Proxy]:
    """The application for *settings*. *transport* takes the place of the network, in tests.

    *place*: the worker's among others.
    """
    metrics = Metrics(place)
    return Generations(settings, lambda settings, before: Proxy(settings, transport, before, metrics))


class Proxy:
    """A generation of the application: one configuration and what it takes to serve it. Made in the running loop.

    *before* is the generation in whose place it comes: what that knew of backends that have not changed is kept.
    *metrics* count for all generations.
    """

    settings: Settings
    catalog: Catalog
    gate: Gate
    learned: Learned
    calls: CallMemory
    breakers: Breakers
    tracing: Tracing | None
    """Where the spans of requests go; None: they are not traced."""
    access: Access | None
    """What the holders of keys may do; None: all alike, and as much as they like."""
    inspector: Inspector | None
    """The page that shows what happens; None: there is none."""
    live: set[RequestRecord]
    """The requests that are being answered."""

    def __init__(
        self,
        settings: Settings,
        transport: httpx.AsyncBaseTransport | None,
        before: Proxy | None,
        metrics: Metrics,
    ) -> None:
        self.settings = settings
        self.gate = Gate(settings)
        self._upstreams = [Upstream(backend, settings.limits, transport) for backend in settings.backends]
        self.access = Access.of(settings.auth, None if before is None else before.access)
        routing = settings.routing
        self.breakers = Breakers(routing.breaker_failures, routing.breaker_seconds)
        if before is None:
            self.catalog = Catalog(self._upstreams, None, routing.health_seconds)
            self.learned, self.calls = Learned(), CallMemory()
        else:
            same = unchanged(before.settings.backends, settings.backends)
            self.catalog = Catalog(self._upstreams, before.catalog.known(same), routing.health_seconds)
            self.breakers.keep(before.breakers, same)
            places = {upstream.name: upstream.places for upstream in before.catalog.upstreams if upstream.name in same}
            for upstream in self._upstreams:  # the server is the same, whichever generation asks it
                upstream.places = places.get(upstream.name, upstream.places)
            self.learned = before.learned.of(same)
            self.calls = before.calls
        self._images = ImageFetcher()
        rules = ContentRules(settings.rules, self.catalog.names_of) if settings.rules.answers else None
        deprecation = Deprecation(settings.rules.deprecated) if settings.rules.deprecated else None
        self._chat = Chat(
            settings,
            self.catalog,
            self.learned,
            self._images,
            self.calls,
            breakers=self.breakers,
            access=self.access,
            rules=rules,
            deprecation=deprecation,
        )
        seconds = routing.health_seconds
        self._checks = Health(self.catalog, self.breakers, seconds) if seconds is not None else None
        self._pass_through = PassThrough(
            settings, self.catalog, self.breakers, access=self.access, rules=rules, deprecation=deprecation
        )
        self.live = set()
        self.inspector = _inspector(self, before)
        self._on_idle: Callable[[], None] | None = None
        self.app: ASGIApp = self._serve
        """Serves its HTTP requests."""
        if settings.server.cors_origins:
            shared = CORSMiddleware(
                self._serve,
                allow_origins=settings.server.cors_origins,
                allow_methods=["GET", "POST"],
                allow_headers=["*"],
                expose_headers=[*_TOLD, "retry-after", *RATE_HEADERS],
            )
            self.app = shared if self.inspector is None else self._share(shared)
        routes = [
            Route("/models", _Endpoint(self._list_models), methods=["GET"]),
            Route("/models/{id:path}", _Endpoint(self._get_model), methods=["GET"]),
            Route("/healthz", _Endpoint(self._health), methods=["GET"]),
            Route("/readyz", _Endpoint(self._ready), methods=["GET"]),
        ]
        self._metrics = metrics
        counting = (partial(metrics.count, known_as=self.catalog.known_as),) if settings.has_metrics else ()
        self._ledger = Ledger(write_line, *counting)
        self.apart = MetricsEndpoint(settings, metrics)
        """Serves what comes to the address that the metrics have for themselves."""
        if settings.has_metrics and not settings.metrics_are_apart:
            routes.append(Route(METRICS_PATH, _Scrape(self.apart, self.access), methods=["GET"]))
        self._router = Router(routes, redirect_slashes=False, default=_not_found)
        self.tracing = _tracing(settings, before)
        metrics.watch(self)

    def settle(self) -> None:
        """Leave nothing undone of requests that are over."""
        self._ledger.settle()

    def drain(self) -> None:
        """The process is about to end: end what would go on for ever."""
        if self.inspector is not None:
            self.inspector.recorder.end_feeds()

    def retire(self, on_idle: Callable[[], None]) -> None:
        """No request is new from now on: call *on_idle* once the last is over, at once where none runs."""
        if self._checks is not None:
            self._checks.stop()
        self.drain()  # pages come again, to what is in the place of this
        if self.live:
            self._on_idle = on_idle
        else:
            on_idle()

    async def close(self) -> None:
        """Close the connections to the servers."""
        self._ledger.close()
        if self._checks is not None:
            await self._checks.close()
        await self.catalog.close()
        await self._images.close()
        if self.access is not None:
            await self.access.close()
        for upstream in self._upstreams:
            await upstream.close()
        if self.tracing is not None:
            await self.tracing.give_back()
        self._metrics.forget(self)

    def _share(self, shared: ASGIApp) -> ASGIApp:
        """*shared* with other origins, but for the inspector."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await (self._serve if scope["path"].startswith(INSPECTOR) else shared)(scope, receive, send)

        return app

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        recorder = None
        if (inspector := self.inspector) is not None:
            if path.startswith(INSPECTOR):
                await inspector(scope, receive, send)
                return
            recorder = inspector.recorder
        given = fields(scope).get(b"x-request-id")
        request_id = random_id() if given is None else _request_id(given)
        headers: Headers = [(b"x-request-id", request_id.encode("ascii"))]
        record = RequestRecord(request_id, scope["method"], path)
        scope["svir.path"] = path
        scope["path"] = path = _CHAT_PATH if path == _USUAL_PATH else _without_prefix(path)
        if record.method == "HEAD":
            send = without_body(send)
        self.live.add(record)
        if recorder is not None and not recorder.sleeps:
            send = recorder.begin(record, scope, send)
        try:
            if self.tracing is not None:
                record.trace = self.tracing.begin(scope, request_id)
            record.key = self.gate.enter(scope)
            if path == _CHAT_PATH and record.method == "POST":
                await self._chat(scope, receive, send, headers, record)
            else:
                await self._dispatch(scope, receive, send, headers, record)
        except ProxyError as error:
            record.status, record.error = error.status, error
            await send_error(send, error, headers)
        except ClientGone:
            record.status = 499
        except asyncio.CancelledError:
            # The process is about to end. This was the task's last work: nobody is left who would have to hear of it.
            if not record.status:
                record.error = stopped()
                record.status = record.error.status
                await send_error(send, record.error, headers)
        except Exception:
            record.status = 500
            _LOGGER.exception("request %s failed in the proxy itself", request_id)
            await send_error(send, internal_error(request_id), headers)
        finally:
            if record.grant is not None:
                record.grant.settle(record)
            self.live.discard(record)
            self._ledger.add(record)
            if recorder is not None and not recorder.sleeps:
                recorder.end(record)
            if record.trace is not None:
                record.trace.end(record)
            if self._on_idle is not None and not self.live:
                self._on_idle()

    async def _dispatch(
        self, scope: Scope, receive: Receive, send: Send, headers: Headers, record: RequestRecord
    ) -> None:
        if scope["path"] == _CHAT_PATH:
            raise _wrong_method(scope, headers, "POST")
        if is_passed(scope["path"]):
            if scope["method"] != "POST":
                raise _wrong_method(scope, headers, "POST")
            await self._pass_through(scope, receive, send, headers, record)
            return
        scope["app"] = self  # makes Starlette raise what it would otherwise answer in its own way
        scope["svir.headers"] = headers
        scope["svir.record"] = record
        try:
            await self._router(scope, receive, send)
        except HTTPException as exc:
            allowed = (exc.headers or {}).get("Allow", "").split(", ")
            raise _wrong_method(scope, headers, *sorted(allowed)) from None

    # ----------------------------------------------------------------- the small routes

    async def _list_models(self, scope: Scope) -> _Json:
        everything = QueryParams(scope["query_string"]).get("all", "") in ("true", "1")
        entries = await self.catalog.entries(everything=everything)
        if self.access is not None:
            entries = self.access.visible(scope["svir.record"].key, entries)
        return 200, {"object": "list", "data": entries}

    async def _get_model(self, scope: Scope) -> _Json:
        record = scope["svir.record"]
        model = scope["path_params"]["id"]
        if self.access is not None:
            self.access.check(record, model)
        return 200, await self.catalog.entry(model, record.may)

    async def _health(self, _scope: Scope) -> _Json:
        return 200, {"status": "ok", "version": __version__}

    async def _ready(self, _scope: Scope) -> _Json:
        """No addresses and no words of a server: nobody has to show a key for this."""
        states = await self.catalog.states()
        ready = "ok" in states.values()
        return 200 if ready else 503, {"status": "ready" if ready else "unready", "backends": states}


class _Endpoint:
    """A function from a scope to a status and JSON, as an ASGI application."""

    def __init__(self, function: Callable[[Scope], Awaitable[_Json]]) -> None:
        self._function = function

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        status, value = await self._function(scope)
        scope["svir.record"].status = status
        await send_json(send, status, value, scope["svir.headers"])


class _Scrape:
    """The route of Prometheus, for whoever may know of all models."""

    def __init__(self, endpoint: MetricsEndpoint, access: Access | None) -> None:
        self._endpoint = endpoint
        self._access = access

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        record = scope["svir.record"]
        if self._access is not None and self._access.is_bound(record.key):
            raise ProxyError(
                "endpoint_not_allowed",
                f"The key {record.key!r} may use some models only, and the metrics tell of all. Show another, or set"
                " metrics.key.",
            )
        record.status = 200
        await self._endpoint.answer(scope, send, scope["svir.headers"])


def _inspector(proxy: Proxy, before: Proxy | None) -> Inspector | None:
    """The inspector of *proxy*, if it has one; what that of *before* has recorded is kept."""
    if not proxy.settings.has_inspector:
        return None
    from svir_proxy.server.inspector.overview import Overview  # noqa: PLC0415 - loaded only where it is on
    from svir_proxy.server.inspector.recorder import Recorder  # noqa: PLC0415 - see above
    from svir_proxy.server.inspector.routes import Inspector  # noqa: PLC0415 - see above

    known = before.inspector if before is not None else None
    recorder = Recorder() if known is None else known.recorder
    recorder.configure(proxy.settings.inspector)
    recorder.overview = Overview(proxy, recorder.counts)
    return Inspector(proxy.settings, proxy.gate, recorder)


async def _not_found(scope: Scope, _receive: Receive, _send: Send) -> None:
    path = scope["svir.path"]
    if _without_prefix(scope["path"]) != scope["path"]:
        raise ProxyError("unknown_url", f"There is no {path!r} here: the base URL has /v1 twice. Write it once.")
    raise ProxyError("unknown_url", f"There is no {path!r} here. This proxy answers {_ENDPOINTS}.")


def _request_id(given: bytes) -> str:
    """The id that a client *given* one wants for its request, where it can be one."""
    return given.decode("ascii") if _REQUEST_ID.fullmatch(given) else random_id()


def _without_prefix(path: str) -> str:
    """*path* as the routes have it: below /v1, without a slash at the end."""
    return f"/{_PREFIX.sub('', path, count=1).rstrip('/')}"


def _tracing(settings: Settings, before: Proxy | None) -> Tracing | None:
    """What traces requests by *settings*: where they are as *before*, the same."""
    if not settings.tracing.is_on:
        return None
    if before is not None and before.tracing is not None and settings.tracing == before.settings.tracing:
        return before.tracing.share()
    from svir_proxy.server.tracing.tracing import Tracing  # noqa: PLC0415 only who traces loads OpenTelemetry

    return Tracing(settings.tracing)


def _wrong_method(scope: Scope, headers: Headers, *allowed: str) -> ProxyError:
    headers.append((b"allow", ", ".join(allowed).encode("ascii")))
    return ProxyError("method_not_allowed", f"{scope['method']} is not answered here. Use {allowed[0]}.")
