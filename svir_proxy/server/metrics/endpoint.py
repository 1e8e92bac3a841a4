"""``GET /metrics``: who may read it, and where. Beside the other routes, or on an address of its own."""

from __future__ import annotations

import os
from typing import Final

from starlette.types import Receive, Scope, Send

from svir_proxy.errors import ProxyError
from svir_proxy.server.gate import METRICS_PATH, check_host, check_own_key
from svir_proxy.server.http import Headers, header, send_body, send_error, send_json, without_body
from svir_proxy.server.metrics.metrics import Metrics
from svir_proxy.settings import Settings
from svir_proxy.settings.hosts import accepted_hosts

_PROBE: Final = "/healthz"


class MetricsEndpoint:
    """Answers scrapes. As an ASGI application it is all that a listener of its own serves."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._metrics = metrics
        self._key = settings.metrics.digest
        self._hosts = accepted_hosts(settings.metrics.host, settings.server.allowed_hosts)

    async def answer(self, scope: Scope, send: Send, headers: Headers) -> None:
        """Answer one scrape of somebody who may have it."""
        content_type, body = await self._metrics.scrape(header(scope, b"accept"))
        await send_body(send, 200, body, headers, content_type.encode("latin-1"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer whatever comes to the address of its own."""
        del receive
        headers: Headers = [(b"x-request-id", os.urandom(16).hex().encode())]
        if scope["method"] == "HEAD":
            send = without_body(send)
        try:
            await self._serve(scope, send, headers)
        except ProxyError as error:
            await send_error(send, error, headers)

    async def _serve(self, scope: Scope, send: Send, headers: Headers) -> None:
        path = scope["path"]
        if path not in (METRICS_PATH, _PROBE):
            raise ProxyError("unknown_url", f"There is no {path!r} here. This address answers GET {METRICS_PATH}.")
        if scope["method"] not in ("GET", "HEAD"):
            headers.append((b"allow", b"GET, HEAD"))
            raise ProxyError("method_not_allowed", f"{scope['method']} is not answered here. Use GET.")
        if path == _PROBE:
            await send_json(send, 200, {"status": "ok"}, headers)
            return
        check_host(scope, self._hosts)
        if self._key is not None:
            check_own_key(scope, self._key, "metrics.key")
        await self.answer(scope, send, headers)
