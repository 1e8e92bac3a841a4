"""Small pieces of HTTP that every route shares: the body of a request, JSON answers, the error envelope."""

from __future__ import annotations

from collections.abc import Iterable
from random import getrandbits
from typing import Any, Final

from starlette.types import Message, Receive, Scope, Send

from svir_proxy.errors import ProxyError
from svir_proxy.response.json_text import dumps
from svir_proxy.server.own_listener import listener_of

Headers = list[tuple[bytes, bytes]]
_ID_BYTES: Final = 16


class ClientGone(Exception):  # noqa: N818 - what happened, not a fault
    """The client closed the connection; there is nobody to answer."""


def random_id() -> str:
    """32 hex digits for a request or an answer: as good as unique, and no secret, so that no system call is needed."""
    return getrandbits(8 * _ID_BYTES).to_bytes(_ID_BYTES).hex()


def header(scope: Scope, name: bytes) -> str:
    """The first header *name* (lower case) of a request, ``""`` where there is none."""
    value = fields(scope).get(name)
    return "" if value is None else value.decode("latin-1")


def fields(scope: Scope) -> dict[bytes, bytes]:
    """The headers of a request by name, the first of each."""
    known: dict[bytes, bytes] | None = scope.get("svir.fields")
    if known is None:
        known = scope["svir.fields"] = {}
        for name, value in scope["headers"]:
            if name not in known:
                known[name] = value
    return known


def beside(headers: Headers, passed: Headers) -> Headers:
    """Those of the headers *passed* on by a server that the proxy's own *headers* do not have."""
    own = {name for name, _ in headers}
    return [field for field in passed if field[0] not in own]


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes | bytearray:
    """The whole body of a request; raises ProxyError past *limit* bytes, ClientGone when the client leaves."""
    listener = listener_of(receive)
    if listener is not None and (at_hand := listener.whole_body()) is not None:
        if len(at_hand) > limit:
            raise too_large(limit)
        return at_hand
    declared = fields(scope).get(b"content-length", b"")
    if declared.isdigit() and int(declared[:20]) > limit:
        raise too_large(limit)
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    body = message.get("body", b"")
    if not message.get("more_body", False):
        if len(body) > limit:
            raise too_large(limit)
        return bytes(body)
    whole = bytearray(body)
    while message.get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        whole += message.get("body", b"")
        if len(whole) > limit:
            raise too_large(limit)
    return whole


async def send_body(
    send: Send, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]], media: bytes = b"application/json"
) -> None:
    """A whole answer, of JSON unless *media* says otherwise."""
    head = [(b"content-type", media), (b"content-length", b"%d" % len(body)), *headers]
    listener = listener_of(send)
    if listener is None or not listener.write_whole(status, head, body):
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": body, "more_body": False})


async def send_json(send: Send, status: int, value: Any, headers: Iterable[tuple[bytes, bytes]]) -> None:
    """*value* as a whole JSON answer."""
    await send_body(send, status, dumps(value), headers)


async def send_error(send: Send, error: ProxyError, headers: Iterable[tuple[bytes, bytes]]) -> None:
    """*error* in the envelope."""
    await send_body(send, error.status, error.body(), [*headers, *error.headers()])


def internal_error(request_id: str) -> ProxyError:
    """The error for a fault of the proxy itself, whose reason is in its log."""
    return ProxyError("internal_error", f"The proxy failed; its log has the reason under {request_id}.")


def stopped() -> ProxyError:
    """The error for an answer that the end of the proxy's process cuts off."""
    return ProxyError("upstream_unavailable", "The proxy was stopped before the answer was complete.")


def without_body(send: Send) -> Send:
    """*send* for the answer to a HEAD request."""

    async def send_head(message: Message) -> None:
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return send_head


def too_large(limit: int) -> ProxyError:
    """The error for a request of more than *limit* bytes."""
    return ProxyError(
        "request_too_large", f"The request body is larger than {limit} bytes (server.max_request_bytes of the proxy)."
    )
