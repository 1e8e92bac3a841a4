"""The inspector over HTTP: the page, its files, the login, and the feed of events.

Everything the page shows comes over the feed, so that it sees one worker, and says which. What may be done with the
proxy is not done here: the page's playground asks the real endpoints, as any client, with the key that is typed there.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from typing import Final
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from svir_proxy import __version__
from svir_proxy.errors import ProxyError
from svir_proxy.response.json_text import dumps
from svir_proxy.server.client_watch import ClientWatch
from svir_proxy.server.gate import Gate
from svir_proxy.server.http import ClientGone, Headers, header, internal_error, read_body, send_error, without_body
from svir_proxy.server.inspector import PATH
from svir_proxy.server.inspector.feed import message
from svir_proxy.server.inspector.files import GUARDS, TYPES, load
from svir_proxy.server.inspector.recorder import Recorder
from svir_proxy.server.inspector.sessions import COOKIE, SECONDS, Sessions
from svir_proxy.settings import Settings

_LOGGER: Final = logging.getLogger("svir_proxy")
_LARGEST: Final = 16 * 1024
"""Bytes of a form."""
_HEARTBEAT: Final = 15.0
_RETRY: Final = b"retry: 1000\n\n"
"""Milliseconds after which a browser comes again when its feed has ended."""
_NOT_KEPT: Final = (b"cache-control", b"no-store")
_EVENTS: Final = (b"content-type", b"text/event-stream; charset=utf-8")


class Inspector:
    """The page of one generation of the proxy. *gate* checks the Host."""

    def __init__(self, settings: Settings, gate: Gate, recorder: Recorder) -> None:
        self._settings = settings
        self._gate = gate
        self.recorder = recorder
        digest, secret = settings.inspector.digest, settings.inspector.secret
        key = None if secret is None else secret.get_secret_value()
        self._sessions = None if digest is None else Sessions(digest, key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request to `PATH` or below."""
        method = scope["method"]
        if method == "HEAD":
            send, method = without_body(send), "GET"
        headers: Headers = list(GUARDS)
        try:
            self._gate.check_host(scope)
            _check_origin(scope, method)
            await self._answer(scope, receive, send, method, headers)
        except ProxyError as error:
            await send_error(send, error, [*headers, _NOT_KEPT])
        except ClientGone:
            pass
        except asyncio.CancelledError:
            pass  # the process is about to end
        except Exception:
            name = secrets.token_hex(8)
            _LOGGER.exception("request %s to the inspector failed in the proxy itself", name)
            await send_error(send, internal_error(name), headers)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, method: str, headers: Headers) -> None:
        below = scope["path"].removeprefix(PATH)
        name = below.strip("/") if below[:1] in ("", "/") else "?"  # something else, that only begins as this does
        wanted = "POST" if name in ("login", "logout") and method == "POST" else "GET"
        if method != wanted:
            headers.append((b"allow", b"GET, POST" if name == "login" else b"GET"))
            raise ProxyError("method_not_allowed", f"{scope['method']} is not answered here. Use {wanted}.")
        match name:
            case "":
                if self._knows(scope):
                    await _send_file(send, "inspector.html", headers, scope)
                else:
                    await _send_to(send, f"{PATH}/login", headers)
            case "login" if method == "POST":
                await self._log_in(scope, receive, send, headers)
            case "login" if self._sessions is None:
                await _send_to(send, PATH, headers)
            case "login":
                await _send_file(send, "login.html", headers, scope)
            case "logout" if method == "POST":
                headers.append((b"set-cookie", _cookie("", 0, scope)))
                await _send_to(send, f"{PATH}/login", headers)
            case "events":
                if not self._knows(scope):
                    raise ProxyError("invalid_api_key", f"Show the inspector's key at {PATH}/login (inspector.key).")
                if scope["method"] == "HEAD":  # whether there is a feed, and for whom
                    await _send_head(send, [_EVENTS, _NOT_KEPT, *headers])
                else:
                    await self._feed(scope, receive, send, headers)
            case "inspector.js" | "inspector.css" | "icon.svg":  # they say nothing that the release does not
                await _send_file(send, name, headers, scope)
            case _:
                raise ProxyError("unknown_url", f"There is no {scope['path']!r} here; the page is at {PATH}.")

    def _knows(self, scope: Scope) -> bool:
        return self._sessions is None or self._sessions.knows(header(scope, b"cookie"), time.time())

    # ----------------------------------------------------------------- the login

    async def _log_in(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        form = parse_qs((await read_body(scope, receive, _LARGEST)).decode("utf-8", "replace"))
        if self._sessions is None:
            await _send_to(send, PATH, headers)
            return
        wait = self._sessions.wait(time.time())
        if wait > 0:
            raise ProxyError("rate_limit_exceeded", "Too many wrong keys were tried; wait a minute.", retry_after=wait)
        cookie = self._sessions.log_in(form.get("key", [""])[0].strip(), time.time())
        if cookie is None:
            _LOGGER.warning("somebody showed a wrong key to the inspector")
            await _send_to(send, f"{PATH}/login#wrong", headers)
            return
        headers.append((b"set-cookie", _cookie(cookie, SECONDS, scope)))
        await _send_to(send, PATH, headers)

    # ----------------------------------------------------------------- the feed

    async def _feed(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        await read_body(scope, receive, 0)
        with ClientWatch(scope, receive), self.recorder.watching() as feed:
            head = [_EVENTS, _NOT_KEPT, (b"x-accel-buffering", b"no")]
            await send({"type": "http.response.start", "status": 200, "headers": [*head, *headers]})

            async def put(data: bytes, *, more: bool = True) -> None:
                await send({"type": "http.response.body", "body": data, "more_body": more})

            await put(_RETRY)
            while not feed.is_over:
                await put(message("hello", dumps(self._hello(was_behind=feed.is_behind))))
                feed.catch_up()
                for text in self.recorder.everything():
                    await put(text)
                await put(message("ready", b"{}"))
                while (data := await feed.take(_HEARTBEAT)) is not None:
                    await put(data)
            await put(b"", more=False)

    def _hello(self, *, was_behind: bool) -> dict[str, object]:
        inspector = self._settings.inspector
        return {
            "version": __version__,
            "worker": os.getpid(),
            "workers": self._settings.server.workers,
            "prompts": inspector.show_prompts,
            "record": inspector.record,
            "requests": inspector.requests,
            "locked": self._sessions is not None,
            "keys": bool(self._settings.auth.hashed()),
            "was_behind": was_behind,
        }


def _check_origin(scope: Scope, method: str) -> None:
    """Refuse what a page of another origin asks for: it may link here, and nothing else."""
    site, origin = header(scope, b"sec-fetch-site"), header(scope, b"origin")
    is_own = site in ("same-origin", "none")
    if not site:  # a browser of some years ago, or none
        is_own = not origin or origin.partition("://")[2] == header(scope, b"host")
    if not is_own and not (method == "GET" and header(scope, b"sec-fetch-mode") == "navigate"):
        raise ProxyError("forbidden_origin", "Only its own page may ask the inspector.")


def _cookie(value: str, seconds: int, scope: Scope) -> bytes:
    # Behind a terminator of TLS, which says so, the cookie is for TLS only.
    secure = "; Secure" if header(scope, b"x-forwarded-proto") == "https" else ""
    return f"{COOKIE}={value}; Path={PATH}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}".encode("ascii")


async def _send_to(send: Send, path: str, headers: Headers) -> None:
    """Have the browser go to *path*."""
    await _send_head(send, [(b"location", path.encode("ascii")), (b"content-length", b"0"), _NOT_KEPT, *headers], 303)


async def _send_file(send: Send, name: str, headers: Headers, scope: Scope) -> None:
    assert name in TYPES
    file = load(name)
    head = [(b"content-type", file.media), (b"etag", file.tag), (b"cache-control", b"no-cache"), *headers]
    if header(scope, b"if-none-match") == file.tag.decode():
        await _send_head(send, head, 304)
        return
    head.append((b"content-length", b"%d" % len(file.content)))
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": file.content, "more_body": False})


async def _send_head(send: Send, headers: Headers, status: int = 200) -> None:
    """An answer without a body."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
