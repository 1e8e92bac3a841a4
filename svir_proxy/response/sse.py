"""Bytes to server-sent events; knows nothing of chat.

Accepts what the event stream format allows and what servers make of it: LF, CRLF and CR line ends (MLX, TabbyAPI),
no blank after the colon (LongCat), several ``data:`` lines, any event name, ``id:`` and ``retry:``, comments anywhere,
a last event without its blank line (Gemini's proxies), and any cut of the bytes.

Traps avoided: joining each read to the unfinished line would be quadratic for byte-wise input, and a list of small
pieces takes twenty times their memory, so the line grows in place; a CR at the end of a read may be half of a CRLF, so
it ends the line at once and a line feed that follows is dropped.
"""

from __future__ import annotations

from typing import NamedTuple


class ServerSentEvent(NamedTuple):
    """One event: its name (``b""`` where it has none) and its data lines joined by line feeds."""

    name: bytes
    data: bytes


class SSEParser:
    """An incremental parser; at the end of the body two line feeds complete an event whose empty line is missing.

    *limit* bounds the bytes of a line and of an event's data. Past it ``too_large`` is set and nothing more comes out.
    """

    __slots__ = ("_after_cr", "_data", "_data_size", "_limit", "_line", "_name", "_settled", "too_large")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()  # the unfinished line
        self._data: list[bytes] = []  # data lines of the unfinished event
        self._data_size = 0
        self._name = b""
        self._after_cr = False
        self._settled = True  # nothing of the above is held
        self.too_large = False

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """The events that *data* completes."""
        if self._settled:
            # The usual read is exactly one event on one line: nothing to split.
            end = len(data) - 2
            if data[:6] == b"data: " and data.find(b"\n") == end and data[end:] == b"\n\n" and b"\r" not in data:
                if end > self._limit:
                    self._check(end)
                    return []
                return [ServerSentEvent(b"", data[6:end])]
        if self._after_cr and data:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        if b"\r" in data:
            self._after_cr = data[-1:] == b"\r"
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return self._split(data)

    def _split(self, data: bytes) -> list[ServerSentEvent]:
        events: list[ServerSentEvent] = []
        lines = data.split(b"\n")
        tail = lines.pop()
        if lines and self._line:
            lines[0] = bytes(self._line + lines[0])
            self._line.clear()
        for line in lines:
            if self.too_large:
                return events
            if line:
                self._field(line)
            else:
                self._dispatch(events)
        if tail:
            self._line += tail
            self._check(len(self._line))
        self._settled = not (self._line or self._data or self._name or self._after_cr or self.too_large)
        return events

    def _field(self, line: bytes) -> None:
        self._check(len(line))
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._data.append(value)
            self._data_size += len(value) + 1
            self._check(self._data_size - 1)
        elif name == b"event":
            self._name = value

    def _dispatch(self, events: list[ServerSentEvent]) -> None:
        if self._data:
            events.append(ServerSentEvent(self._name, b"\n".join(self._data)))
            self._data = []
            self._data_size = 0
        self._name = b""

    def _check(self, size: int) -> None:
        if size > self._limit:
            self.too_large = True
            self._settled = False
            self._line = bytearray()
            self._data = []
