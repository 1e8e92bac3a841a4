"""What the last requests say about a backend: whether it is asked in its turn, or last.

A breaker never answers a request: it changes the order in which backends are asked, so that a request does not first
wait for one that is known to fail. Where nobody else is left, that one is asked all the same.

Time is passed in, in seconds of any clock that does not go back.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from svir_proxy.errors import RETRY_AFTER_LIMIT

State = Literal["closed", "open", "half_open"]
Key = tuple[str, str]
"""A backend's name, and its server's id for the model."""

_ENTRIES: Final = 1000
"""Models that are remembered: clients may choose the names of some."""


@dataclass(slots=True)
class _Record:
    """One model at one backend that failed last."""

    failures: int = 0
    """In a row."""
    until: float | None = None
    """When it may be tried again; None: it is asked in its turn."""
    trying: bool = False
    """Whether a request is under way that tries it."""


class Breakers:
    """The breakers of all backends and models. One opens after so many *failures* in a row, for so many *seconds*.

    A request that asks a backend says `begin`, and in the end one of `succeeded`, `failed` and `gave_up`.
    """

    def __init__(self, failures: int, seconds: float) -> None:
        self._failures = failures
        self._seconds = seconds
        self._records: dict[Key, _Record] = {}

    def keep(self, before: Breakers, backends: Container[str]) -> None:
        """Know what *before* knew of these *backends*, apart from it."""
        for key, record in before._records.items():
            if key[0] in backends:
                self._records[key] = _Record(record.failures, record.until)

    def state(self, key: Key, now: float) -> State:
        """How it stands with *key*: ``half_open`` is the time for one request to try it."""
        record = self._records.get(key)
        if record is None or record.until is None:
            return "closed"
        return "half_open" if now >= record.until else "open"

    def states(self, now: float) -> Mapping[Key, State]:
        """Of all that failed last."""
        return {key: self.state(key, now) for key in self._records}

    def admits(self, key: Key, now: float) -> bool:
        """Whether *key* is to be asked in its turn."""
        record = self._records.get(key)
        return record is None or record.until is None or (now >= record.until and not record.trying)

    def begin(self, key: Key, now: float) -> None:
        """A request is about to ask *key*."""
        record = self._records.get(key)
        if record is not None and record.until is not None and now >= record.until:
            record.trying = True

    def succeeded(self, key: Key) -> bool:
        """The server answered; whether that closes a breaker that was open."""
        record = self._records.pop(key, None)
        return record is not None and record.until is not None

    def failed(self, key: Key, now: float, retry_after: float | None = None) -> bool:
        """The server failed, or asked to be left alone for *retry_after* seconds; whether that opens the breaker."""
        record = self._records.pop(key, None) or _Record()
        if len(self._records) >= _ENTRIES:
            self._records.pop(next(iter(self._records)))
        self._records[key] = record  # the latest is the last to be forgotten
        record.failures += 1
        was_open = record.until is not None
        if record.until is None or now >= record.until:
            record.trying = False
            if was_open or record.failures >= self._failures:
                record.until = now + self._seconds
        if retry_after:
            record.until = max(record.until or 0.0, now + min(retry_after, RETRY_AFTER_LIMIT))
        return record.until is not None and not was_open

    def gave_up(self, key: Key) -> None:
        """The request ended without telling anything about the server."""
        record = self._records.get(key)
        if record is not None:
            record.trying = False

    def returned(self, backend: str, now: float) -> None:
        """The server of *backend* was seen to answer again: each of its models may be tried."""
        for (name, _), record in self._records.items():
            if name == backend and record.until is not None:
                record.until = min(record.until, now)
