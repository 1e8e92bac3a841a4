"""Which of several backends is asked first, which next.

Priorities come first. Among backends of one priority the weights decide over conversations, not over requests: a model
server remembers the prompts it has read, and a conversation that goes on where it began is answered in a fraction of
the time. So each conversation orders the backends for itself by a hash (weighted rendezvous hashing): its shares are
those of the weights, nothing is stored, all workers and replicas come to the same order, and where a backend is gone
only its own conversations move - each to the next in its order, and back when it has returned.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any, Final, TypeVar

from svir_proxy.client_request import ClientRequest
from svir_proxy.response.json_text import dumps
from svir_proxy.settings import Backend

T = TypeVar("T")

_BITS: Final = 52
"""Of a hash that count: so many that a float between 0 and 1 has them all, and is neither."""
_FIRST: Final = 8
"""Messages that are looked at where the user is silent."""
_TAIL: Final = 1024
"""Bytes of a large payload that tell it from another."""


def in_order(items: Iterable[T], backend: Callable[[T], Backend], key: bytes | None) -> list[T]:
    """*items*, each of which has a *backend*, in the order they are to be asked in.

    *key* tells the conversation; None: chance decides.
    """

    def place(item: T) -> tuple[int, float]:
        its = backend(item)
        return its.priority, -_score(its, key)

    return sorted(items, key=place)


def conversation(request: ClientRequest) -> bytes:
    """What is the same in each request of a conversation, and hardly in two: 16 bytes.

    The client's own ``prompt_cache_key``, else the messages up to the first of the user.
    """
    told = blake2b(request.model.encode("utf-8", "surrogatepass"), digest_size=16)
    key = request.body.get("prompt_cache_key")
    if isinstance(key, str) and key:
        told.update(b"\0key\0" + key.encode("utf-8", "surrogatepass"))
        return told.digest()
    for message in request.body["messages"][:_FIRST]:
        for piece in _said(message.get("content"), request):
            told.update(piece)
        if message.get("role") == "user":
            break
    return told.digest()


def _score(backend: Backend, key: bytes | None) -> float:
    """The highest is asked first; each of several backends has it as often as its weight is of all."""
    if key is None:
        drawn = 1.0 - random.random()  # noqa: S311 - shares, no secrets
    else:
        hashed = blake2b(backend.name.encode(), key=key, digest_size=8).digest()
        drawn = ((int.from_bytes(hashed) >> (64 - _BITS)) + 0.5) / 2**_BITS
    return backend.weight / -math.log(drawn) if drawn < 1 else math.inf


def _said(content: Any, request: ClientRequest) -> Iterator[bytes | memoryview]:
    """What tells a message's *content* from another; of a large image that is its end."""
    if isinstance(content, str):
        yield b"\0text\0" + content.encode("utf-8", "surrogatepass")
    elif isinstance(content, list):
        with contextlib.suppress(ValueError):  # what no server could read either
            told = dumps(content)
            pieces = [told] if request.blobs is None else request.blobs.fill(told)
            yield b"\0parts\0"
            yield from (piece if isinstance(piece, bytes) else piece[-_TAIL:] for piece in pieces)
