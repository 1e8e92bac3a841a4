"""The latest requests, and the browsers that look on.

While nobody looks nothing is written down (`inspector.record: watched`), and a request costs a look whether somebody
does: most proxies are never looked at. All that is kept has a limit; the oldest go first. Lives as long as the process:
a reload of the configuration leaves it as it is.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from starlette.types import Message, Scope, Send

from svir_proxy.errors import ProxyError
from svir_proxy.response.json_text import dumps
from svir_proxy.server.gate import OPEN_PATHS
from svir_proxy.server.http import header
from svir_proxy.server.inspector.exhibit import Exhibit
from svir_proxy.server.inspector.feed import Feed, message
from svir_proxy.server.inspector.veil import Veil
from svir_proxy.server.request_record import RequestRecord
from svir_proxy.settings import InspectorSettings

_PACE: Final = 0.1
"""Seconds between two messages about the same thing."""
_STATE: Final = 1.0
"""Seconds between two looks at the backends."""
_LINGER: Final = 30.0
"""Seconds that a viewer may be away: a page that is loaded anew."""
_FORGET: Final = 300.0
"""Seconds after which nothing is left of requests that nobody looks at, nor counted any more."""
_MOST_VIEWERS: Final = 16
_MOST_HOLDERS: Final = 1000
"""Keys and backends that are counted."""


class Recorder:
    """Made in the running loop; `configure` before anything else."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._exhibits: deque[Exhibit] = deque()
        self._veil = Veil(prompts=False)
        self._number = 0
        self._dirty: dict[Exhibit, None] = {}
        self._viewers: set[Feed] = set()
        self._watched_until = 0.0
        self.sleeps = True
        """Whether nothing is recorded, as nobody has looked for a while: no request need begin or end here."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._state = b""
        self.overview: Callable[[], dict[str, Any]] = dict
        """What there is beside requests: backends, models, keys."""
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """Requests, errors and tokens since somebody looks: ``("key" | "backend", its name, what)``."""

    def configure(self, settings: InspectorSettings) -> None:
        """Keep as much as *settings* say, from now on."""
        if settings.show_prompts != self._veil.prompts:
            self._veil = Veil(settings.show_prompts)
            for exhibit in self._exhibits:  # also of those that run: what may be seen now may not have been before
                exhibit.forget()
        self._always = settings.record == "always"
        self.sleeps = self.sleeps and not self._always
        self._most = settings.requests
        self._largest = settings.max_bytes
        self._bound()

    # ----------------------------------------------------------------- requests

    @property
    def is_watched(self) -> bool:
        """Whether what requests hold is written down."""
        return self._always or bool(self._viewers) or self._loop.time() < self._watched_until

    def begin(self, record: RequestRecord, scope: Scope, send: Send) -> Send:
        """A request has come; gives what is to take the place of *send*."""
        if self.sleeps or not self.is_watched or record.path in OPEN_PATHS:
            return send
        exhibit = self._add(record, header(scope, b"user-agent"), self._veil)
        record.exhibit = exhibit
        return _Sent(send, exhibit)

    def end(self, record: RequestRecord) -> None:
        """The request is over."""
        if self.sleeps or record.path in OPEN_PATHS:
            return
        exhibit, record.exhibit = record.exhibit, None
        if exhibit is None:
            exhibit = self._add(record, "", None)
        exhibit.end()
        self._count(record)
        self._bound()

    def _add(self, record: RequestRecord, agent: str, veil: Veil | None) -> Exhibit:
        self._number += 1
        exhibit = Exhibit(self._number, record, agent, veil, self._touch)
        self._exhibits.append(exhibit)
        while len(self._exhibits) > self._most:
            self._drop()
        return exhibit

    def _drop(self) -> None:
        # The oldest that is over; one that runs is let go only where all do.
        exhibit = next((exhibit for exhibit in self._exhibits if exhibit.is_over), self._exhibits[0])
        self._exhibits.remove(exhibit)
        self._dirty.pop(exhibit, None)

    def _bound(self) -> None:
        size = sum(exhibit.size for exhibit in self._exhibits)
        if size > self._largest:
            for exhibit in sorted(self._exhibits, key=lambda exhibit: not exhibit.is_over):  # those that run come last
                size -= exhibit.size
                exhibit.forget()
                size += exhibit.size
                if size <= self._largest:
                    break
        while len(self._exhibits) > self._most:
            self._drop()

    def _count(self, record: RequestRecord) -> None:
        usage = (record.answer.usage if record.answer is not None else None) or {}
        for kind, name in (("key", record.key or ""), ("backend", record.backend)):
            is_new = (kind, name, "requests") not in self.counts
            if (kind == "backend" and not name) or (is_new and len(self.counts) > _MOST_HOLDERS):
                continue
            self.counts[kind, name, "requests"] += 1
            self.counts[kind, name, "errors"] += record.error is not None or record.status >= 400
            for what, field in (("tokens_in", "prompt_tokens"), ("tokens_out", "completion_tokens")):
                self.counts[kind, name, what] += usage.get(field) or 0

    def _touch(self, exhibit: Exhibit) -> None:
        self._dirty[exhibit] = None
        if "news" not in self._timers:
            self._timers["news"] = self._loop.call_later(_PACE, self._tell_news)

    # ----------------------------------------------------------------- viewers

    @contextmanager
    def watching(self) -> Iterator[Feed]:
        """One more viewer, while entered; raises ProxyError where there are too many."""
        if len(self._viewers) >= _MOST_VIEWERS:
            raise ProxyError("overloaded", f"{_MOST_VIEWERS} pages look on already; close one.", retry_after=10)
        feed = Feed()
        self._viewers.add(feed)
        self.sleeps = False
        self._cancel("forget")
        if "state" not in self._timers:
            self._timers["state"] = self._loop.call_later(_STATE, self._tell_state)
        try:
            yield feed
        finally:
            self._viewers.discard(feed)
            if not self._viewers:
                self._cancel("state")
                self._watched_until = self._loop.time() + _LINGER
                if not self._always:
                    self._timers["forget"] = self._loop.call_later(_FORGET, self._forget)

    def everything(self) -> Iterator[bytes]:
        """What a viewer is told at first, message by message."""
        yield message("state", self._look())
        for exhibit in tuple(self._exhibits):
            yield message("request", exhibit.whole())

    def end_feeds(self) -> None:
        """No viewer is told anything more; they come again where there is something."""
        for feed in self._viewers:
            feed.end()

    def close(self) -> None:
        """Nothing is kept and nothing told any more."""
        self.end_feeds()
        for name in tuple(self._timers):
            self._cancel(name)
        self._exhibits.clear()

    def _cancel(self, timer: str) -> None:
        handle = self._timers.pop(timer, None)
        if handle is not None:
            handle.cancel()

    def _tell_news(self) -> None:
        del self._timers["news"]
        dirty, self._dirty = self._dirty, {}
        for exhibit in dirty:
            self._tell(message("request", exhibit.news()))
        self._bound()

    def _tell_state(self) -> None:
        self._timers["state"] = self._loop.call_later(_STATE, self._tell_state)
        before, now = self._state, self._look()
        if now != before:
            self._tell(message("state", now))

    def _look(self) -> bytes:
        self._state = dumps(self.overview())
        return self._state

    def _tell(self, text: bytes) -> None:
        for feed in self._viewers:
            feed.put(text)

    def _forget(self) -> None:
        del self._timers["forget"]
        self.sleeps = True
        self._exhibits.clear()  # a list that ends somewhere, and goes on later, would lie
        self.counts.clear()


class _Sent:
    """Takes the place of an ASGI ``send``, and tells an exhibit what went through it."""

    def __init__(self, send: Send, exhibit: Exhibit) -> None:
        self._send = send
        self._exhibit = exhibit

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._exhibit.began_answer(message["status"], message.get("headers", ()))
        else:
            self._exhibit.sent(len(message.get("body", b"")))
        await self._send(message)
