"""Carries requests to the server that is asked, and brings back whatever comes: never an exception."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol
from urllib.parse import quote

import httpx
import orjson

from svir_proxy.probe.answer import Answer, Ask
from svir_proxy.profiles.schema import Endpoint

CONNECT_SECONDS: Final = 10.0
MAX_BODY_BYTES: Final = 8 << 20
"""Of one answer; what comes after is not read."""

_OUTPUT: Final = (b'"content":"', b'"content": "', b'"reasoning', b'"tool_calls"', b'"error"')
"""What a piece of a stream holds that is more than its first, empty one."""
_NO_OUTPUT: Final = (b'"content":""', b'"content": ""')


class Wire(Protocol):
    """What an interview needs of a connection."""

    async def ask(self, ask: Ask, seconds: float) -> Answer:
        """The answer to a chat request, waited for at most so long."""

    async def get(self, path: str, seconds: float) -> Answer:
        """The answer to a GET of *path*, below the server's root."""


def key_headers(auth: str, key: str | None) -> dict[str, str]:
    """The header that shows *key*, as `Endpoint.auth` has it."""
    if key is None or auth == "none":
        return {}
    return {"api-key": key} if auth == "api-key" else {"authorization": f"Bearer {key}"}


class HTTPWire:
    """One server over HTTP.

    Args:
        client: Its connections.
        root: The server's URL, without ``/v1``.
        endpoint: Paths, query and how the key is shown; may be replaced while the server is got to know.
        key: The server's key.
        clock: Seconds.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        root: str,
        endpoint: Endpoint,
        key: str | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._root = root
        self.endpoint = endpoint
        self.key = key
        self._clock = clock

    async def ask(self, ask: Ask, seconds: float) -> Answer:
        """The answer to a chat request."""
        path = self.endpoint.chat_path.replace("{model}", quote(str(ask.body["model"]), safe=""))
        return await self._exchange("POST", path, seconds, orjson.dumps(ask.body), leave=ask.leave_after_output)

    async def get(self, path: str, seconds: float) -> Answer:
        """The answer to a GET."""
        return await self._exchange("GET", path, seconds)

    async def _exchange(
        self, method: str, path: str, seconds: float, content: bytes | None = None, *, leave: bool = False
    ) -> Answer:
        headers = key_headers(self.endpoint.auth, self.key)
        if content is not None:
            headers["content-type"] = "application/json"
        request = self._client.build_request(
            method, self._root + path, params=self.endpoint.query or None, headers=headers, content=content
        )
        return await self._send(request, seconds, leave=leave)

    async def _send(self, request: httpx.Request, seconds: float, *, leave: bool) -> Answer:
        began = self._clock()
        first: float | None = None
        status: int | None = None
        answered: Mapping[str, str] = {}
        body = bytearray()
        trouble, late, left = "", False, False
        response: httpx.Response | None = None
        try:
            async with asyncio.timeout(seconds):
                response = await self._client.send(request, stream=True)
                status, answered = response.status_code, dict(response.headers)
                async for piece in response.aiter_bytes():
                    first = self._clock() if first is None else first
                    body += piece
                    if leave and status == httpx.codes.OK and _has_output(body):
                        left = True
                        break
                    if len(body) > MAX_BODY_BYTES:
                        trouble = f"the answer is longer than {MAX_BODY_BYTES} bytes"
                        break
        except TimeoutError:
            late = True
            trouble = f"no {'answer' if status is None else 'end'} within {seconds:.3g} s"
        except httpx.ConnectTimeout:
            trouble = f"no connection within {CONNECT_SECONDS:.0f} s"
        except httpx.ConnectError as exc:
            trouble = f"no connection: {exc}"
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            trouble = f"the connection broke: {str(exc) or type(exc).__name__}"
        finally:
            if response is not None:
                await response.aclose()
        ended = self._clock()
        whole = not trouble and not left
        return Answer(
            status,
            answered,
            bytes(body),
            whole=whole,
            trouble=trouble,
            late=late,
            left=left,
            first_seconds=(first or ended) - began,
            seconds=ended - began,
        )


def _has_output(body: bytes | bytearray) -> bool:
    said = bytes(body)
    for empty in _NO_OUTPUT:
        said = said.replace(empty, b"")
    return any(sign in said for sign in _OUTPUT)
