"""Who gets in: the Host a browser may use, and the proxy's own keys. Neither is ever passed on."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Final

from starlette.types import Scope

from svir_proxy.errors import ProxyError
from svir_proxy.server.http import fields, header
from svir_proxy.settings import Settings

METRICS_PATH: Final = "/metrics"
OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""What a probe asks, under whatever name it has for the proxy; the answers hold nothing that is secret."""
_APART: Final = OPEN_PATHS | {METRICS_PATH}
_MAX_SEEN: Final = 16
"""Values of Host that are remembered: a name has as many as there are ports and ways to write it."""


class Gate:
    """Lets a request in or raises ProxyError."""

    def __init__(self, settings: Settings) -> None:
        self._keys = [(holder.name, holder.digest, holder.expires) for holder in settings.auth.holders()]
        self._hosts = settings.server.accepted_hosts
        self._seen: set[bytes] = set()  # values of Host that were looked at and are fine
        has_route = settings.has_metrics and not settings.metrics_are_apart
        self._metrics_key = settings.metrics.digest if has_route else None

    def enter(self, scope: Scope) -> str | None:
        """The name of the key that was shown; None where the proxy is open."""
        if scope["path"] in _APART and (scope["path"] in OPEN_PATHS or self._metrics_key is not None):
            self._enter_apart(scope)
            return None
        if self._hosts is not None and fields(scope).get(b"host") not in self._seen:
            self.check_host(scope)
        if not self._keys:
            return None
        return self._check_key(scope)

    def check_host(self, scope: Scope) -> None:
        """Raise ProxyError for a Host that is no name of this proxy."""
        check_host(scope, self._hosts)
        if len(self._seen) < _MAX_SEEN:
            self._seen.add(fields(scope).get(b"host", b""))

    def _enter_apart(self, scope: Scope) -> None:
        if scope["path"] not in OPEN_PATHS:
            assert self._metrics_key is not None
            check_host(scope, self._hosts)
            check_own_key(scope, self._metrics_key, "metrics.key")

    def _check_key(self, scope: Scope) -> str:
        shown = _shown_keys(scope)
        if not shown:
            raise ProxyError(
                "invalid_api_key", "No API key was given. Send one of the proxy's keys as 'Authorization: Bearer KEY'."
            )
        digests = [hashlib.sha256(key.encode("latin-1")).digest() for key in shown]
        found = None
        for name, known, expires in self._keys:  # all of them, whichever matches, so that time tells nothing
            for digest in digests:
                if hmac.compare_digest(digest, known):
                    found = name, expires
        if found is None:
            raise ProxyError("invalid_api_key", "The API key is not one of this proxy's keys (auth.keys).")
        name, expires = found
        if expires is not None and time.time() >= expires:
            over = datetime.fromtimestamp(expires, UTC)
            raise ProxyError(
                "invalid_api_key",
                f"The API key {name!r} expired at {over:%Y-%m-%dT%H:%M:%SZ}. Ask the operator for another.",
            )
        return name


def check_host(scope: Scope, hosts: Collection[str] | None) -> None:
    """Refuse names that only a web page would use for this machine (DNS rebinding). *hosts*: its own; None: any."""
    host = header(scope, b"host").lower()
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if hosts is not None and name not in hosts:
        raise ProxyError(
            "forbidden_host",
            f"The Host {name!r} is not a name of this proxy; list it under server.allowed_hosts to allow it.",
        )


def check_own_key(scope: Scope, digest: bytes, setting: str) -> None:
    """Refuse a request that does not show the key with this SHA-256 *digest*, which *setting* of the proxy sets."""
    shown = [hashlib.sha256(key.encode("latin-1")).digest() for key in _shown_keys(scope)]
    if not any(hmac.compare_digest(one, digest) for one in shown):
        text = "is not the one" if shown else "was not given: show the one"
        raise ProxyError("invalid_api_key", f"The API key {text} that is asked for here ({setting} of the proxy).")


def _shown_keys(scope: Scope) -> list[str]:
    """The keys a request shows: some clients send a placeholder in one header beside the key in another."""
    scheme, _, token = header(scope, b"authorization").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return [key for key in (bearer, header(scope, b"x-api-key"), header(scope, b"api-key")) if key]
