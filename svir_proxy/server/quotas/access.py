"""What each holder of a key may do: which models, and how much. One for each generation of the proxy.

A request is counted when its model is known, and before any server is asked: as one request at once, with its tokens
when it is over. What is refused counts nothing.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self

from svir_proxy.errors import ProxyError
from svir_proxy.server.http import Headers
from svir_proxy.server.model_names import is_like
from svir_proxy.server.quotas.bounds import Bound, Counted, bounds_of
from svir_proxy.server.quotas.counters import Counters, Demand, StoreDown, Verdict
from svir_proxy.server.quotas.counting_place import CountingPlace
from svir_proxy.server.quotas.rate_headers import rate_headers
from svir_proxy.server.quotas.tokens import Meter
from svir_proxy.server.request_record import RequestRecord
from svir_proxy.settings import AuthSettings, KeyLimits

_EVERYBODY: Final = "open"
"""The account of a proxy without keys."""
_SPANS: Final = {"minute": "in a minute", "day": "in a day", "month": "in a month"}


class Policy:
    """What one account may do. *name*: as logs call the holder; None: everybody."""

    def __init__(self, name: str | None, account: str, models: Iterable[str] | None, limits: KeyLimits) -> None:
        self.name = name
        self.account = account
        self.models = None if models is None else tuple(models)
        self.bounds = bounds_of(limits)
        self.at_once = limits.concurrent_requests
        self.counts = bool(self.bounds) or self.at_once is not None
        """Whether anything has to be counted."""
        self.counts_tokens = any(bound.unit == "tokens" for bound in self.bounds)
        """Whether tokens have."""
        self.last: tuple[float, Verdict] | None = None
        """When a request was last counted (Unix time), and what was found then; for who looks on."""
        self._names = frozenset(self.models or ())
        self._patterns = tuple(model for model in self._names if "*" in model)

    def may_use(self, model: str) -> bool:
        """Whether it may use *model*, by the name that the client says."""
        return self.models is None or model in self._names or any(is_like(model, it) for it in self._patterns)

    def used(self, now: float) -> list[tuple[str, int, int]]:
        """Each limit in time: its setting, what counts at *now* of what the last request found, and how much may."""
        at, verdict = self.last or (0.0, None)
        counts = () if verdict is None else verdict.counted
        told = []
        for index, bound in enumerate(self.bounds):
            found = counts[index] if counts else Counted()
            then, window = bound.window(at), bound.window(now)
            if window.current != then.current:  # what was current then has become what was before, or nothing
                found = Counted(0, found.current if window.previous == then.current else 0)
            told.append((bound.setting, bound.used(window, found), bound.amount))
        return told

    @property
    def who(self) -> str:
        """The holder, at the beginning of a sentence."""
        return "This proxy" if self.name is None else f"The key {self.name!r}"


@dataclass(slots=True)
class Grant:
    """A request that was let in, and has to be settled when it is over."""

    counters: Counters
    demand: Demand
    clock: Callable[[], float]

    def settle(self, record: RequestRecord) -> None:
        """Count what the request took."""
        tokens = 0
        if record.meter is not None:
            usage = None if record.answer is None else record.answer.usage
            tokens = record.meter.tokens(usage, failed=record.error is not None)
        self.counters.settle(self.demand, tokens, self.clock())


class Access:
    """The policies of one configuration, and the place where it is counted, which outlives it."""

    def __init__(self, auth: AuthSettings, place: CountingPlace | None) -> None:
        self.place = place
        """Where it is counted; None: nothing is."""
        self._counters = None if place is None else place.counters
        self._is_open = auth.store_down == "open"
        self._tells = auth.rate_headers
        self._clock = time.time
        holders = auth.holders()
        self.policies: dict[str | None, Policy] = {
            holder.name: Policy(holder.name, holder.account, holder.models, holder.limits) for holder in holders
        }
        """By the name that the gate gives; None: whoever comes, where no key is needed."""
        if not holders:
            self.policies[None] = Policy(None, _EVERYBODY, None, auth.limits)

    @classmethod
    def of(cls, auth: AuthSettings, before: Self | None) -> Self | None:
        """The access that *auth* gives, counted where *before* counted if that is the same place.

        None: there is nothing to be looked after.
        """
        place = None
        if auth.has_limits:
            known = None if before is None else before.place
            place = (known and known.shared_with(auth)) or CountingPlace(auth)
        elif all(holder.models is None for holder in auth.holders()):
            return None
        return cls(auth, place)

    def is_bound(self, key: str | None) -> bool:
        """Whether the holder of *key* may use some models only."""
        policy = self.policies.get(key)
        return policy is not None and policy.models is not None

    def check(self, record: RequestRecord, model: str, others: Iterable[str] = ()) -> None:
        """Let a request name *model*, or raise ProxyError, kind ``model_not_allowed``.

        *others*: more models that it names, to be taken where the first is not to be had.
        """
        policy = self.policies.get(record.key)
        if policy is None or policy.models is None:
            return
        record.may = policy.may_use
        for name in (model, *others):
            if not policy.may_use(name):
                raise _not_allowed(policy, name)

    async def admit(self, record: RequestRecord, headers: Headers, make_meter: Callable[[], Meter]) -> tuple[str, ...]:
        """Let a request in that `check` has let pass, or raise ProxyError; *headers* of the answer tell what is left.

        *record* gets what is to be settled, and the meter where tokens count. The result are notes, to be told.
        """
        policy = self.policies.get(record.key)
        if policy is None or not policy.counts:
            return ()
        counters = self._counters
        assert counters is not None
        demand = Demand(policy.account, policy.bounds, policy.at_once, secrets.token_hex(8))
        now = self._clock()
        notes: tuple[str, ...] = ()
        try:
            verdict = await counters.admit(demand, now)
        except StoreDown:
            if not self._is_open:
                raise _not_counted() from None
            notes = ("limits=unchecked",)
        else:
            if self._tells:
                windows = demand.windows(now)
                headers += rate_headers(policy.bounds, windows, verdict.counted, now, taken=verdict.taken)
            policy.last = now, verdict
            if not verdict.taken:
                raise _refused(policy, demand, verdict, now)
            record.grant = Grant(counters, demand, self._clock)
            if policy.counts_tokens:
                record.meter = make_meter()
        return notes

    def visible(self, key: str | None, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of a model list's *entries* that the holder of *key* may use."""
        policy = self.policies.get(key)
        return entries if policy is None else [entry for entry in entries if policy.may_use(entry["id"])]

    async def close(self) -> None:
        """Nothing more is counted for this configuration."""
        if self.place is not None:
            await self.place.leave()


def _not_allowed(policy: Policy, model: str) -> ProxyError:
    """The error for a model that is not the key's to use."""
    may = ", ".join(policy.models or ()) or "none"
    named = f"the model {model!r}" if model else "a request that names no model"
    return ProxyError("model_not_allowed", f"{policy.who} may not use {named}. It may use {may}.", param="model")


def _not_counted() -> ProxyError:
    return ProxyError(
        "upstream_unavailable",
        "The store that the proxy counts requests in does not answer, and requests that cannot be counted are refused"
        " (auth.store_down of the proxy).",
        retry_after=1,
    )


def _refused(policy: Policy, demand: Demand, verdict: Verdict, now: float) -> ProxyError:
    """The error for a request that did not fit: of the limit that keeps it longest."""
    full = [
        (bound.free_at(window, counted), bound, bound.used(window, counted))
        for bound, window, counted in zip(demand.bounds, demand.windows(now), verdict.counted, strict=True)
        if bound.is_full(window, counted)
    ]
    if not full:
        return ProxyError(
            "rate_limit_exceeded",
            f"{policy.who} has {verdict.running} requests running, and may have {demand.at_once} at a time"
            " (concurrent_requests). Wait for one of them to end.",
            retry_after=1,
        )
    free, bound, used = max(full, key=lambda row: row[0])
    return ProxyError(
        "rate_limit_exceeded" if bound.span == "minute" else "quota_exceeded",
        _said(policy, bound, used, free, now),
        retry_after=free - now,
    )


def _said(policy: Policy, bound: Bound, used: int, free: float, now: float) -> str:
    until = datetime.fromtimestamp(free, UTC)
    when = f"in {max(free - now, 0.1):.1f} s" if bound.span == "minute" else f"at {until:%Y-%m-%dT%H:%M:%SZ}"
    return (
        f"{policy.who} has used {used} {bound.unit} of the {bound.amount} that it may use {_SPANS[bound.span]}"
        f" ({bound.setting}). Try again {when}."
    )
