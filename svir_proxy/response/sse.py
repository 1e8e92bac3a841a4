"""Bytes to server-sent events; knows nothing of chat.

Accepts what the event stream format allows and what servers make of it: LF, CRLF and CR line ends (MLX, TabbyAPI),
no blank after the colon (LongCat), several ``data:`` lines, any event name, ``id:`` and ``retry:``, comments anywhere,
a last event without its blank line (Gemini's proxies), and any cut of the bytes.

Traps avoided: joining each read to the unfinished line would be quadratic for byte-wise input, and a list of small
pieces takes twenty times their memory, so the line grows in place; a CR at the end of a read may be half of a CRLF, so
it ends the line at once and a line feed that follows is dropped.
"""

from __future__ import annotations

from typing import Final

ServerSentEvent = tuple[bytes, bytes]
"""One event: its name (``b""`` where it has none) and its data lines joined by line feeds."""

_LF: Final = 0x0A
_CR: Final = 0x0D


class SSEParser:
    """An incremental parser; at the end of the body two line feeds complete an event whose empty line is missing.

    *limit* bounds the bytes of a line and of an event's data. Past it ``too_large`` is set and nothing more comes out.
    """

    __slots__ = ("_after_cr", "_data", "_data_size", "_in_event", "_limit", "_line", "_name", "too_large")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line: bytearray | None = None  # the unfinished line
        self._data: list[bytes] | None = None  # data lines of the unfinished event
        self._data_size = 0
        self._name = b""
        self._after_cr = False
        self._in_event = False  # anything but an unfinished line is held
        self.too_large = False

    @property
    def is_between(self) -> bool:
        """Whether what comes next begins an event."""
        return self._line is None and not self._in_event and not self._after_cr

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """The events that *data* completes."""
        if self._in_event or _CR in data:
            return self._split(self._with_line_feeds(data))
        if self._line is not None:
            if _LF not in data:
                self._grow_line(data)
                return []
            data = b"".join((self._line, data))
            self._line = None
        if len(data) > self._limit:
            return self._split(data)
        # The usual read is exactly one event on one line: nothing to split.
        line = data[6:-2]
        if _LF not in line and data[-2:] == b"\n\n" and data[:6] == b"data: ":
            return [(b"", line)]
        return self._cut(data)

    def _cut(self, data: bytes) -> list[ServerSentEvent]:
        """Whole events of one line each, and perhaps the beginning of one more; anything else is split."""
        *blocks, tail = data.split(b"\n\n")
        if _LF in tail:
            return self._split(data)
        events: list[ServerSentEvent] = []
        for block in blocks:
            if block[:6] != b"data: " or _LF in block:
                return self._split(data)
            events.append((b"", block[6:]))
        if tail:
            self._line = bytearray(tail)
        return events

    def _with_line_feeds(self, data: bytes) -> bytes:
        """*data* with line feeds for its line ends."""
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == _LF:
                data = data[1:]
        if _CR in data:
            self._after_cr = data[-1] == _CR
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _split(self, data: bytes) -> list[ServerSentEvent]:
        events: list[ServerSentEvent] = []
        lines = data.split(b"\n")
        tail = lines.pop()
        if lines and self._line is not None:
            lines[0] = bytes(self._line + lines[0])
            self._line = None
        for line in lines:
            if self.too_large:
                return events
            if line:
                self._field(line)
            else:
                self._dispatch(events)
        if tail:
            self._grow_line(tail)
        self._in_event = bool(self._data or self._name or self._after_cr or self.too_large)
        return events

    def _grow_line(self, data: bytes) -> None:
        if self._line is None:
            self._line = bytearray()
        self._line += data
        self._check(len(self._line))

    def _field(self, line: bytes) -> None:
        self._check(len(line))
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            if self._data is None:
                self._data = []
            self._data.append(value)
            self._data_size += len(value) + 1
            self._check(self._data_size - 1)
        elif name == b"event":
            self._name = value

    def _dispatch(self, events: list[ServerSentEvent]) -> None:
        if self._data is not None:
            events.append((self._name, b"\n".join(self._data)))
            self._data = None
            self._data_size = 0
        self._name = b""

    def _check(self, size: int) -> None:
        if size > self._limit:
            self.too_large = self._in_event = True
            self._line = self._data = None
