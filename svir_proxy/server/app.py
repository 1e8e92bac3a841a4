"""The proxy as an ASGI application: the table of contents of the server side.

Every request passes the gate, gets an id and leaves a line in the log. Chat goes its own way, past everything that
costs time per event; Starlette's router has the rest.
"""

from __future__ import annotations

import logging
import re
import uuid
from typing import Any, Final

import httpx
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from svir_proxy import __version__
from svir_proxy.errors import ProxyError
from svir_proxy.server.catalog import Catalog
from svir_proxy.server.chat import Chat
from svir_proxy.server.gate import Gate
from svir_proxy.server.http import ClientGone, Headers, header, internal_error, send_error, send_json
from svir_proxy.server.learned import Learned
from svir_proxy.server.request_log import RequestLog
from svir_proxy.server.upstream import Upstream
from svir_proxy.settings import Settings

_LOGGER: Final = logging.getLogger("svir_proxy")
_CHAT_PATHS: Final = frozenset({"/v1/chat/completions", "/chat/completions"})
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_ENDPOINTS: Final = "POST /v1/chat/completions, GET /v1/models, GET /v1/models/{id}, GET /healthz, GET /readyz"


def create_app(settings: Settings, transport: httpx.AsyncBaseTransport | None = None) -> ASGIApp:
    """The application for *settings*. *transport* takes the place of the network, in tests."""
    app: ASGIApp = Proxy(settings, transport)
    if settings.server.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=settings.server.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["x-request-id", "x-svir-backend", "x-svir-rewrites", "retry-after"],
        )
    return app


class Proxy:
    """The application; what it holds begins and ends with its lifespan."""

    def __init__(self, settings: Settings, transport: httpx.AsyncBaseTransport | None) -> None:
        self._settings = settings
        self._transport = transport
        self._gate = Gate(settings)
        self._catalog = Catalog(())
        self._chat = Chat(settings, self._catalog, Learned())
        self._router = Router(
            [
                Route("/v1/models", _Endpoint(self._list_models), methods=["GET"]),
                Route("/models", _Endpoint(self._list_models), methods=["GET"]),
                Route("/v1/models/{id:path}", _Endpoint(self._get_model), methods=["GET"]),
                Route("/models/{id:path}", _Endpoint(self._get_model), methods=["GET"]),
                Route("/healthz", _Endpoint(self._health), methods=["GET"]),
                Route("/readyz", _Endpoint(self._ready), methods=["GET"]),
            ],
            redirect_slashes=False,
            default=_not_found,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope."""
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = header(scope, b"x-request-id")
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = uuid.uuid4().hex
        headers: Headers = [(b"x-request-id", request_id.encode("ascii"))]
        log = RequestLog(request_id, scope["method"], scope["path"])
        try:
            log.key = self._gate.enter(scope)
            await self._dispatch(scope, receive, send, headers, log)
        except ProxyError as error:
            log.status, log.error = error.status, error
            await send_error(send, error, headers)
        except ClientGone:
            log.status = 499
        except Exception:
            log.status = 500
            _LOGGER.exception("request %s failed in the proxy itself", request_id)
            await send_error(send, internal_error(request_id), headers)
        finally:
            log.write()

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send, headers: Headers, log: RequestLog) -> None:
        path = scope["path"]
        if path in _CHAT_PATHS:
            if scope["method"] != "POST":
                headers.append((b"allow", b"POST"))
                raise ProxyError("method_not_allowed", f"{scope['method']} is not answered here; POST is.")
            await self._chat(scope, receive, send, headers, log)
            return
        scope["app"] = self  # makes Starlette raise what it would otherwise answer in its own way
        scope["svir.headers"] = headers
        try:
            await self._router(scope, receive, send)
        except HTTPException as exc:
            allowed = (exc.headers or {}).get("Allow", "")
            headers.append((b"allow", allowed.encode("latin-1")))
            raise ProxyError("method_not_allowed", f"{scope['method']} is not answered here; {allowed} is.") from None
        log.status = 200

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        upstreams = [Upstream(backend, self._settings.limits, self._transport) for backend in self._settings.backends]
        self._catalog = Catalog(upstreams)
        self._chat = Chat(self._settings, self._catalog, Learned())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for upstream in upstreams:
            await upstream.close()
        await send({"type": "lifespan.shutdown.complete"})

    # ----------------------------------------------------------------- the small routes

    async def _list_models(self, scope: Scope) -> Any:
        everything = QueryParams(scope["query_string"]).get("all", "") in ("true", "1")
        return {"object": "list", "data": await self._catalog.entries(everything=everything)}

    async def _get_model(self, scope: Scope) -> Any:
        identity = scope["path_params"]["id"]
        for entry in await self._catalog.entries(everything=True):
            if entry["id"] == identity:
                return entry
        raise ProxyError("model_not_found", f"No backend has the model {identity!r}.", param="model")

    async def _health(self, scope: Scope) -> Any:
        del scope
        return {"status": "ok", "version": __version__}

    async def _ready(self, scope: Scope) -> Any:
        del scope
        await self._catalog.entries(everything=True)
        if not self._catalog.upstreams:
            raise ProxyError("upstream_unavailable", "No model server is configured.")
        return {"status": "ready"}


class _Endpoint:
    """A function from a scope to JSON as an ASGI application."""

    def __init__(self, function: Any) -> None:
        self._function = function

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        await send_json(send, 200, await self._function(scope), scope["svir.headers"])


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    del receive, send
    raise ProxyError("unknown_url", f"There is no {scope['path']!r} here. This proxy answers {_ENDPOINTS}.")
