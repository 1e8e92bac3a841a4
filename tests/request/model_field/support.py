"""What the tests of both kinds of bodies share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from svir_proxy.errors import ProxyError
from svir_proxy.request.model_field import ModelField

NEW = "org/other"


def read(field: ModelField, body: bytes, *cuts: int) -> ModelField:
    """*field* after it was given *body*, cut at these places."""
    places = [0, *sorted(cuts), len(body)]
    for start, end in itertools.pairwise(places):
        field.feed(body[start:end])
    field.end()
    return field


def replaced(field: ModelField, body: bytes, model: str = NEW) -> bytes:
    """*body* with *model* in the place of its own."""
    assert field.span is not None
    start, end = field.span
    return body[:start] + field.written(model) + body[end:]


def said(error: ProxyError) -> str:
    """An error in short."""
    return f"{error.kind} {error.param}: {error.message}"


def all_cuts(body: bytes) -> Iterator[tuple[int, ...]]:
    """Not at all, at each place once, and everywhere."""
    yield ()
    yield from ((at,) for at in range(1, len(body)))
    yield tuple(range(1, len(body)))
