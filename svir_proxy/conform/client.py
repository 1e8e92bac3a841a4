"""Asks a server over HTTP, and takes what it sends as it is: nothing is read, nothing forgiven, no redirect followed.

What goes wrong on the way is part of the answer.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Self

import httpx

from svir_proxy.conform.exchange import Exchange, Request

WRONG_KEY: Final = "svir-conform-wrong-key"
LARGEST: Final = 64 * 2**20
"""Bytes of a body that are read."""
_BUSY: Final = (429, 503)
_NOTHING_SAID: Final = (httpx.ReadTimeout, httpx.ConnectTimeout, httpx.ConnectError)


class Client:
    """A client of the server at *url*, with or without ``/v1`` at its end.

    Args:
        url: Where it is.
        api_key: Its key; "": none. It is in no exchange.
        seconds: The longest that an answer may take.
        tries: How often a server that is busy is asked.
        verify: Whom to trust; True: the usual authorities.
    """

    def __init__(
        self, url: str, api_key: str = "", *, seconds: float = 120, tries: int = 3, verify: ssl.SSLContext | bool = True
    ) -> None:
        self.root = root_of(url)
        self._key = api_key
        self._seconds = seconds
        self._tries = tries
        # Uncompressed, so that what is read is what was sent. The variables of a proxy are not meant for this.
        headers = {"accept-encoding": "identity", "user-agent": "svir-proxy-conform"}
        self._http = httpx.Client(
            trust_env=False,
            verify=verify,
            timeout=httpx.Timeout(seconds, connect=10),
            headers=headers,
            # A connection for each: one that is kept may end while the next request is on its way.
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.close()

    def ask(self, request: Request) -> Exchange:
        """The answer. A server that is busy is asked again when it says, or after a second."""
        for left in reversed(range(self._tries)):
            exchange = self._ask(request)
            if exchange.status not in _BUSY or not left:
                break
            wait = exchange.headers.get("retry-after", "")
            time.sleep(min(int(wait) if wait.isdigit() else 1, 20))
        return exchange

    def _ask(self, request: Request) -> Exchange:
        began = time.monotonic()
        try:
            with self._response(request) as response:
                return replace(_read(request, response, began + self._seconds), seconds=time.monotonic() - began)
        except httpx.HTTPError as exc:
            return Exchange(request, failure=_words(exc, self._seconds), late=isinstance(exc, _NOTHING_SAID))

    @contextmanager
    def _response(self, request: Request) -> Iterator[httpx.Response]:
        headers = {"content-type": "application/json"} if request.content is not None else {}
        key = WRONG_KEY if request.key == "wrong" else self._key
        if key:
            headers["authorization"] = f"Bearer {key}"
        with self._http.stream(
            request.verb, self.root + request.path, content=request.content, headers=headers
        ) as response:
            yield response


def root_of(url: str) -> str:
    """The address without ``/v1`` and without a slash at its end."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _read(request: Request, response: httpx.Response, until: float) -> Exchange:
    body, failure, late = b"", "", False
    try:
        for piece in response.iter_bytes():
            body += piece
            if request.leave is not None and request.leave in body:
                break
            if len(body) > LARGEST:
                failure = f"the body is longer than {LARGEST} bytes"
                break
            if time.monotonic() > until:
                failure, late = "the answer did not end in time", True
                break
    except httpx.HTTPError as exc:
        failure, late = _words(exc, 0), isinstance(exc, httpx.ReadTimeout)
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Exchange(
        request, response.status_code, headers, body, not failure, failure, late, response.http_version or "HTTP/1.1"
    )


def _words(exc: httpx.HTTPError, seconds: float) -> str:
    if isinstance(exc, httpx.ReadTimeout):
        return f"no answer in {seconds:g} s" if seconds else "nothing more came in time"
    return f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
