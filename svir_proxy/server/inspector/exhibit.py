"""One request as the inspector keeps it: what came, what went where, and what came back, piece by piece.

What is learned is put down in a few steps, in the turn of the loop it comes in; it is made fit to be seen, and
bounded, by `Exhibit.news`, a few times a second. After that nothing is left of it but what may be seen.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

from svir_proxy.client_request import Body, ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.profiles.schema import Profile
from svir_proxy.request.reasons import reason
from svir_proxy.response.events import Event
from svir_proxy.response.json_text import dumps
from svir_proxy.response.lifecycle import OUTPUT
from svir_proxy.server.inspector.canonical import told
from svir_proxy.server.inspector.difference import difference
from svir_proxy.server.inspector.raw import RawText, shown_body
from svir_proxy.server.inspector.veil import Veil
from svir_proxy.server.request_record import RequestRecord

ROOM: Final = 128 * 1024
"""Bytes of the pieces of one answer that are kept, as JSON: the first and the last of them."""
_UNSEEN: Final = 256 * 1024
"""Bytes of an answer that wait to be made fit to be seen; what comes beyond it in the same moment is only counted."""
_MOST_ATTEMPTS: Final = 20
_LONGEST: Final = 300
"""Characters of anything that others choose and that is no prompt and no answer."""
_WINDOW: Final = 0.05
"""Seconds between the first and the last piece from which on there is an honest rate."""


class Attempt:
    """One time that a backend was asked, or was about to be."""

    def __init__(self, index: int, backend: str, model: str, veil: Veil, touch: Callable[[], None]) -> None:
        self.index = index
        self.backend = backend
        self.model = model
        self.scrub: Callable[[str], str] = str
        """Takes keys out of what the server says."""
        self._veil = veil
        self._touch = touch
        self._began = time.perf_counter()
        self._asked: float | None = None
        self._headed: float | None = None
        self._first: float | None = None
        self._ended: float | None = None
        self._status = 0
        self._media = ""
        self._error: dict[str, Any] | None = None
        self._raw = RawText(veil)
        self._error_body = ""
        self._pending: list[tuple[float, bytes, Sequence[Event], bool]] = []
        self._pending_bytes = 0
        self._unseen = 0
        self._is_kept = True
        self._rows = 0
        self._output: tuple[float, float] | None = None  # when the first and the last visible piece came
        self._visible = 0
        self.lines: bytes | None = None
        """What was changed in the request, as JSON; None: it was not asked."""

    @property
    def was_asked(self) -> bool:
        """Whether the request went out."""
        return self._asked is not None

    def asked(self, before: Body, body: Body, notes: Sequence[str], profile: Profile) -> None:
        """*body* goes to the server, where the client had sent *before*; *notes* say what was changed."""
        self._asked = time.perf_counter()
        if not self._is_kept:
            return
        explained = [asdict(reason(note[:_LONGEST], profile)) for note in notes]
        lines = difference(before, body, self._veil)
        self.lines = dumps({"server": profile.server, "lines": lines, "reasons": explained})
        self._touch()

    def answered(self, status: int, media: str) -> None:
        """The head of the response is there."""
        self._headed = time.perf_counter()
        self._status, self._media = status, media[:_LONGEST]
        self._touch()

    def refused(self, body: bytes) -> None:
        """The *body* of a response that is no success."""
        self._error_body = shown_body(body, self._veil, self.scrub)

    def let_go(self) -> None:
        """Nothing more of it is kept: nobody would come for it."""
        self._is_kept = False
        self._pending.clear()
        self.lines = None

    def read(self, data: bytes, events: Sequence[Event], *, end: bool = False) -> None:
        """*data* came, and *events* of it. *end*: the body has ended."""
        if not self._is_kept:
            return
        self._pending_bytes += len(data)
        if self._pending_bytes > _UNSEEN:
            self._unseen += len(data)
            data = b""
        self._pending.append((time.perf_counter(), data, events, end))
        self._touch()

    def ended(self, error: ProxyError | None) -> None:
        """The attempt is over."""
        self._ended = time.perf_counter()
        self._error = _error(error)
        self._touch()

    def rows(self, began: float) -> list[bytes]:
        """What was read since the last call, a JSON array each: attempt, number, milliseconds, raw text, events."""
        pending, self._pending = self._pending, []
        self._pending_bytes = 0
        rows = []
        for at, data, events, end in pending:
            raw = self._raw.end(self.scrub) if end else self._raw.feed(data, self.scrub) if data else ""
            if self._first is None and data:
                self._first = at
            visible = sum(isinstance(event, OUTPUT) for event in events)
            if visible:
                self._visible += visible
                self._output = (self._output[0] if self._output else at), at
            if raw or events:
                shown = [told(event, self._veil) for event in events]
                rows.append(dumps([self.index, self._rows, _ms(at - began), raw, shown]))
                self._rows += 1
        return rows

    def told(self, began: float) -> dict[str, Any]:
        """All but its lines and rows. Times are milliseconds since *began*."""

        def since(at: float | None) -> float | None:
            return None if at is None else _ms(at - began)

        return {
            "backend": self.backend,
            "model": self.model[:_LONGEST],
            "began": since(self._began),
            "asked": since(self._asked),
            "head": since(self._headed),
            "first_byte": since(self._first),
            "first_output": since(self._output[0] if self._output else None),
            "last_output": since(self._output[1] if self._output else None),
            "ended": since(self._ended),
            "status": self._status,
            "media": self._media,
            "error": self._error,
            "error_body": self._error_body,
            "unseen": self._unseen,
            "visible": self._visible,
        }

    def rate(self, tokens: int | None) -> float | None:
        """Tokens a second from the first visible piece to the last, of so many *tokens* (None: one a piece).

        Reasoning that the server keeps to itself came before the first, and is none of them.
        """
        if self._output is None:
            return None
        seconds = self._output[1] - self._output[0]
        count = tokens or self._visible
        return round((count - 1) / seconds, 1) if self._visible > 1 and seconds >= _WINDOW else None


class Exhibit:
    """One request. *veil*: what of it may be seen; None: nothing but what its record has, since nobody looks."""

    def __init__(
        self, number: int, record: RequestRecord, agent: str, veil: Veil | None, touch: Callable[[Exhibit], None]
    ) -> None:
        self.number = number
        self.is_over = False
        self._record: RequestRecord | None = record
        self._began = record.began
        self._at = time.time()
        self._agent = agent[:_LONGEST]
        self._veil = veil
        self._on_touch = touch
        self._body: Body | None = None
        self._client: bytes | None = None
        self._attempts: list[Attempt] = []
        self._first: deque[bytes] = deque()
        self._last: deque[bytes] = deque()
        self._first_size = self._last_size = 0
        self._sent: dict[str, Any] = {}
        self._told_lines: set[int] = set()
        self._summary: dict[str, Any] = {}

    # ----------------------------------------------------------------- for who answers the request

    def asked(self, request: ClientRequest) -> None:
        """What the client sent was read."""
        if self._veil is not None:
            self._body = request.body
            self._client = dumps(difference(request.body, request.body, self._veil))
            self._touch()

    def attempt(self, backend: str, model: str) -> Attempt:
        """*backend* is about to be asked."""
        veil = self._veil or Veil(prompts=False)
        attempt = Attempt(len(self._attempts), backend, model, veil, self._touch)
        if len(self._attempts) < _MOST_ATTEMPTS and self._veil is not None:
            self._attempts.append(attempt)
        else:
            attempt.let_go()
        return attempt

    @property
    def body(self) -> Body:
        """What the client sent; ``{}`` after the end."""
        return self._body or {}

    def began_answer(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """The client gets the head of its answer."""
        shown = [[name.decode("latin-1"), value.decode("latin-1")[:_LONGEST]] for name, value in headers]
        self._sent = {"status": status, "headers": shown, "at": _ms(time.perf_counter() - self._began), "bytes": 0}
        self._touch()

    def sent(self, size: int) -> None:
        """The client gets so many bytes more."""
        if self._sent:
            self._sent["bytes"] += size
            self._touch()

    def end(self) -> None:
        """The request is over."""
        self._summary = self._summarize() | {"over": True}
        self.is_over = True
        self._record = self._body = None
        self._touch()

    def _touch(self) -> None:
        self._on_touch(self)

    # ----------------------------------------------------------------- for who looks

    @property
    def size(self) -> int:
        """Bytes that it holds, about."""
        lines = sum(len(attempt.lines or b"") for attempt in self._attempts)
        return 1000 + len(self._client or b"") + lines + self._first_size + self._last_size

    @property
    def summary(self) -> dict[str, Any]:
        """What the list of requests shows."""
        return self._summary if self.is_over else self._summarize()

    def forget(self) -> None:
        """Keep the summary only."""
        self._veil = self._client = self._body = None
        for attempt in self._attempts:
            attempt.let_go()
        self._attempts.clear()
        self._first.clear()
        self._last.clear()
        self._first_size = self._last_size = 0
        self._sent = {}

    def news(self) -> bytes:
        """What has changed since the last call, as a JSON object; it is kept for `whole`."""
        rows = [row for attempt in self._attempts for row in attempt.rows(self._began)]
        for row in rows:
            self._keep(row)
        lines = [i for i, attempt in enumerate(self._attempts) if attempt.lines and i not in self._told_lines]
        client = None if self._told_lines or not self._client else self._client
        self._told_lines.update(lines)
        return self._message(rows, lines, client)

    def whole(self) -> bytes:
        """All that is kept, as a JSON object."""
        lines = [i for i, attempt in enumerate(self._attempts) if attempt.lines]
        return self._message([*self._first, *self._last], lines, self._client)

    def _message(self, rows: Sequence[bytes], lines: Sequence[int], client: bytes | None) -> bytes:
        head = {
            "summary": self.summary,
            "attempts": [attempt.told(self._began) for attempt in self._attempts],
            "sent": self._sent,
        }
        changes = b",".join(b'"%d":%b' % (index, self._attempts[index].lines or b"null") for index in lines)
        return b"".join((
            *(dumps(head)[:-1], b',"client":', client or b"null", b',"changes":{', changes, b"}"),
            *(b',"rows":[', b",".join(rows), b"]}"),
        ))  # fmt: skip

    def _keep(self, row: bytes) -> None:
        """The first rows and the last: how an answer begins and ends tells most."""
        if not self._last and self._first_size + len(row) <= ROOM // 2:
            self._first.append(row)
            self._first_size += len(row)
            return
        self._last.append(row)
        self._last_size += len(row)
        while self._last_size > ROOM // 2 and len(self._last) > 1:
            self._last_size -= len(self._last.popleft())

    def _summarize(self) -> dict[str, Any]:
        record, now = self._record, time.perf_counter()
        assert record is not None
        answer = record.answer
        usage = (answer.usage if answer is not None else None) or {}
        tokens = usage.get("completion_tokens")
        hidden = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
        if answer is None or answer.has_reasoning:
            hidden = 0
        last = self._attempts[-1] if self._attempts else None
        first = answer.first_output if answer is not None else None
        return {
            "n": self.number,
            "id": record.id,
            "at": round(self._at, 3),
            "over": False,
            "method": record.method,
            "path": record.path[:_LONGEST],
            "key": record.key,
            "model": record.model[:_LONGEST],
            "backend": record.backend,
            "stream": record.stream,
            "agent": self._agent,
            "status": record.status,
            "error": _error(record.error),
            "notes": [note[:_LONGEST] for note in record.notes],
            "pieces": answer.pieces if answer is not None else 0,
            "tokens_in": usage.get("prompt_tokens"),
            "tokens_out": tokens,
            "finish": answer.finish_reason if answer is not None else None,
            "ms": _ms(now - self._began),
            "first_ms": None if first is None else _ms(first - self._began),
            "rate": None if last is None else last.rate(tokens and tokens - hidden),
            "seen": self._veil is not None,
        }


def _error(error: ProxyError | None) -> dict[str, Any] | None:
    """*error* as the log has it: of its words no more than the log writes."""
    if error is None:
        return None
    return {"kind": error.kind, "status": error.status, "message": error.message[:_LONGEST]}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)
