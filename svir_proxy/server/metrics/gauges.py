"""What is so at this moment: read from what lives, when somebody asks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from svir_proxy.server.breaker import Breakers, State
from svir_proxy.server.catalog import Catalog
from svir_proxy.server.metrics import families
from svir_proxy.server.metrics.labels import OTHER, endpoint_of, printable
from svir_proxy.server.metrics.values import Values, add
from svir_proxy.server.quotas.access import Access
from svir_proxy.server.request_record import RequestRecord

_STATES: tuple[State, ...] = ("closed", "half_open", "open")


class Watched(Protocol):
    """A generation of the application, as far as it tells how it stands."""

    @property
    def catalog(self) -> Catalog:
        """Its backends and their models."""

    @property
    def breakers(self) -> Breakers:
        """What their last requests say about them."""

    @property
    def access(self) -> Access | None:
        """What the holders of keys may do, and where it is counted; None: all alike."""

    @property
    def live(self) -> Collection[RequestRecord]:
        """The requests that are being answered."""

    def settle(self) -> None:
        """Count all requests that are over."""


def read_gauges(generations: Sequence[Watched], now: float) -> Values:
    """The gauges of *generations*, the newest last, at *now* (time of the loop).

    What requests do is of all, since those before the newest end where they began; what is known of servers is of
    the newest.
    """
    values: Values = {}
    if not generations:
        return values
    newest = generations[-1]
    for backend in ("", *(upstream.name for upstream in newest.catalog.upstreams)):
        add(values, families.OPEN_REQUESTS, (backend,), 0)
        add(values, families.OPEN_STREAMS, (backend,), 0)
    for record in (record for generation in generations for record in generation.live):
        if endpoint_of(record.path) == "metrics":
            continue  # whoever asks is no news
        add(values, families.OPEN_REQUESTS, (record.backend,), 1)
        if record.stream:
            add(values, families.OPEN_STREAMS, (record.backend,), 1)
    # Generations have the same places where the backend is the same.
    places = {
        id(upstream.places): (upstream.name, upstream.places)
        for generation in generations
        for upstream in generation.catalog.upstreams
        if upstream.places is not None
    }
    for backend, line in places.values():
        add(values, families.PLACES_TAKEN, (backend,), line.taken)
        add(values, families.WAITING, (backend,), line.waiting)
    for upstream in newest.catalog.upstreams:
        if upstream.places is not None:
            add(values, families.PLACES, (upstream.name,), upstream.places.requests)
    for backend, answers in newest.catalog.answering().items():
        add(values, families.BACKEND_UP, (backend,), int(answers))
    if newest.access is not None and (place := newest.access.place) is not None and place.counters.is_shared:
        add(values, families.STORE_UP, (), int(not place.counters.is_down))
    for (backend, model), is_in in newest.breakers.states(now).items():
        told = printable(model[:200]) if newest.catalog.has_id(backend, model) else OTHER
        for state in _STATES:
            add(values, families.BREAKER, (backend, told, state), int(state == is_in))
    return values
