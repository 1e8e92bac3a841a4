"""What is left, in the headers that OpenAI's clients read."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final

from svir_proxy.server.http import Headers
from svir_proxy.server.quotas.bounds import Bound, Counted, Window

_UNITS: Final = ("requests", "tokens")
_HARDLY: Final = 0.01
"""Seconds that do not make it one more."""
RATE_HEADERS: Final = tuple(f"x-ratelimit-{what}-{unit}" for unit in _UNITS for what in ("limit", "remaining", "reset"))
"""All of their names."""


def rate_headers(
    bounds: Sequence[Bound], windows: Sequence[Window], counted: Sequence[Counted], now: float, *, taken: bool
) -> Headers:
    """Limit, what remains, and when that is all again, for requests and for tokens: of the bound that ends first.

    *counted* is what counted before the request; it counts itself where it was *taken*.
    """
    headers: Headers = []
    for unit in _UNITS:
        told = [
            (bound.amount - bound.used(window, after), bound, window, after)
            for bound, window, before in zip(bounds, windows, counted, strict=True)
            if bound.unit == unit
            for after in (before._replace(current=before.current + bound.cost) if taken else before,)
        ]
        if told:
            remaining, bound, window, after = min(told, key=lambda row: row[0])
            headers += [
                (f"x-ratelimit-limit-{unit}".encode(), b"%d" % bound.amount),
                (f"x-ratelimit-remaining-{unit}".encode(), b"%d" % max(remaining, 0)),
                (f"x-ratelimit-reset-{unit}".encode(), _duration(bound.reset_at(window, after) - now)),
            ]
    return headers


def _duration(seconds: float) -> bytes:
    """As OpenAI writes it: ``1h2m3s``, whole seconds."""
    minutes, rest = divmod(max(ceil(seconds - _HARDLY), 0), 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s" if minutes else f"{rest}s"
    return text.encode()
