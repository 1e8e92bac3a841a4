"""What requests come to, counted once each after they are over. No library, no lock, no clock of its own.

What is usual, a known path and model, is one look into a dict and a few additions; names are only judged at the first
sight of them, and those that clients make up at each.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Final

from svir_proxy.server.metrics import families
from svir_proxy.server.metrics.labels import ENDPOINTS, OTHER, endpoint_of, note_of, printable
from svir_proxy.server.metrics.values import Values, add, total
from svir_proxy.server.request_record import Progress, RequestRecord

KnownAs = Callable[[str], str | None]
"""The name of a model that a client asked for, as the configuration or a list has it; None: neither has it."""

MAX_SERIES: Final = 1000
"""Endpoints with a backend and a model that are told apart, beyond which every model is ``other``."""
MAX_NOTES: Final = 1000
_LONGEST: Final = 200
"""Characters of a model's name."""
_SHORTEST: Final = 0.05
"""Seconds from the first token to the last below which they tell no speed."""

_SECONDS: Final = families.REQUEST_SECONDS.buckets
_FIRST: Final = families.FIRST_TOKEN.buckets
_RATES: Final = families.RATE.buckets


class _Series:
    """The requests of one endpoint, backend and model."""

    __slots__ = (
        *("backend", "cached", "endpoint", "errors", "first_token", "input", "model"),
        *("output", "rate", "reasoning", "seconds", "statuses"),
    )

    def __init__(self, endpoint: str, backend: str, model: str) -> None:
        self.endpoint = endpoint
        self.backend = backend
        self.model = model
        self.statuses: dict[int, int] = {}
        self.errors: dict[str, int] = {}
        self.seconds = [0.0] * (len(_SECONDS) + 2)
        self.first_token: list[float] | None = None
        self.rate: list[float] | None = None
        self.input = self.cached = self.output = self.reasoning = 0


class Tally:
    """The counts of one process. *before*: the counts to go on from, of the one in whose place it came."""

    def __init__(self, before: Values | None = None) -> None:
        self._before = before or {}
        self._usual: dict[tuple[str, str, str], _Series] = {}
        """By path, backend and model, as the request has them."""
        self._series: dict[tuple[str, str, str], _Series] = {}
        """By endpoint, backend and model, as they are told."""
        self._noted: dict[tuple[_Series, tuple[str, ...]], int] = {}
        """Requests by what was noted about them, which is yet to be read."""
        self._notes: dict[tuple[str, str], int] = {}
        self._retries: dict[tuple[str, str, str], int] = {}
        self._failovers: dict[tuple[str, str, str], int] = {}
        self.requests = 0
        """How many were counted."""

    def count(self, record: RequestRecord, known_as: KnownAs) -> None:
        """Count a request that is over."""
        self.requests += 1
        series = self._usual.get((record.path, record.backend, record.model))
        if series is None:
            series = self._find(record, known_as)
        status = record.status
        series.statuses[status] = series.statuses.get(status, 0) + 1
        seconds = record.seconds
        series.seconds[bisect_left(_SECONDS, seconds)] += 1
        series.seconds[-1] += seconds
        if (error := record.error) is not None:
            series.errors[error.kind] = series.errors.get(error.kind, 0) + 1
        elif status == 500:  # the proxy's own fault, which has a traceback in the log
            series.errors["internal_error"] = series.errors.get("internal_error", 0) + 1
        if (answer := record.answer) is not None:
            _count_answer(series, record, answer)
        if record.notes:
            noted = (series, record.notes)
            self._noted[noted] = self._noted.get(noted, 0) + 1
            if len(self._noted) > MAX_NOTES:
                self._fold_notes()

    def values(self) -> Values:
        """All that was counted, and what was before."""
        self._fold_notes()
        values: Values = {}
        for one in self._series.values():
            of_all, of_model = (one.endpoint, one.backend, one.model), (one.backend, one.model)
            for status, count in one.statuses.items():
                add(values, families.REQUESTS, (*of_all, str(status)), count)
            for kind, count in one.errors.items():
                add(values, families.ERRORS, (*of_all, kind), count)
            add(values, families.REQUEST_SECONDS, of_all, list(one.seconds))
            if one.first_token is not None:
                add(values, families.FIRST_TOKEN, of_model, list(one.first_token))
            if one.rate is not None:
                add(values, families.RATE, of_model, list(one.rate))
            if one.input or one.output:
                add(values, families.INPUT, of_model, one.input)
                add(values, families.CACHED, of_model, one.cached)
                add(values, families.OUTPUT, of_model, one.output)
                add(values, families.REASONING, of_model, one.reasoning)
        counters = ((families.REWRITES, self._notes), (families.RETRIES, self._retries))
        for family, counts in (*counters, (families.FAILOVERS, self._failovers)):
            for labels, count in counts.items():
                add(values, family, labels, count)
        return total((self._before, values)) if self._before else values

    def _find(self, record: RequestRecord, known_as: KnownAs) -> _Series:
        """The series of a request that is seen for the first time, or is not usual."""
        endpoint, model = endpoint_of(record.path), record.model
        known = known_as(model) if model else ""
        told = OTHER if known is None else printable(known[:_LONGEST])
        key = (endpoint, record.backend, told)
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= MAX_SERIES:
                key = (endpoint, record.backend, OTHER)
            series = self._series.setdefault(key, _Series(*key))
        if known == model and record.path in ENDPOINTS and len(self._usual) < 2 * MAX_SERIES:
            self._usual[(record.path, record.backend, model)] = series
        return series

    def _fold_notes(self) -> None:
        noted, self._noted = self._noted, {}
        for (series, notes), count in noted.items():
            self._count_notes(series, notes, count)

    def _count_notes(self, series: _Series, notes: tuple[str, ...], count: int) -> None:
        for note in notes:
            label = (series.backend, note_of(note))
            if label not in self._notes and len(self._notes) >= MAX_NOTES:
                label = (series.backend, OTHER)
            _count(self._notes, label, count)
            if note.startswith("failover="):
                backend, _, kind = note.removeprefix("failover=").rpartition(":")
                _count(self._failovers, (backend, series.model, kind), count)
            elif note.endswith("=asked_again"):
                _count(self._retries, (series.backend, series.model, "unmet"), count)
        if any(note.startswith("retry") for note in notes):  # one, though it may be of several fields
            _count(self._retries, (series.backend, series.model, "rejected"), count)


def _count_answer(series: _Series, record: RequestRecord, answer: Progress) -> None:
    first = answer.first_output
    if first is not None and record.stream:
        if series.first_token is None:
            series.first_token = [0.0] * (len(_FIRST) + 2)
        seconds = first - record.began
        series.first_token[bisect_left(_FIRST, seconds)] += 1
        series.first_token[-1] += seconds
    if (usage := answer.usage) is None:
        return
    output = usage["completion_tokens"]
    reasoning = _detail(usage, "completion_tokens_details", "reasoning_tokens")
    series.input += usage["prompt_tokens"]
    series.cached += _detail(usage, "prompt_tokens_details", "cached_tokens")
    series.output += output
    series.reasoning += reasoning
    last = answer.last_output
    if first is None or last is None or last - first < _SHORTEST:
        return
    # Reasoning that the server keeps to itself came before the first token, and is none that was seen.
    seen = output if answer.has_reasoning else output - reasoning
    if seen > 1:
        if series.rate is None:
            series.rate = [0.0] * (len(_RATES) + 2)
        rate = (seen - 1) / (last - first)
        series.rate[bisect_left(_RATES, rate)] += 1
        series.rate[-1] += rate


def _detail(usage: dict[str, Any], details: str, name: str) -> int:
    found: int = usage.get(details, {}).get(name, 0)
    return found


def _count(counts: dict[Any, int], key: object, count: int) -> None:
    counts[key] = counts.get(key, 0) + count
