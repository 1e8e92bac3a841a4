"""Chunks that repeat the one before them in all but their text, read without parsing what they repeat.

Nearly every chunk of a stream is one: id, time, model and all else come again byte for byte, around one string. Such a
frame is learned from a chunk and tried before it is used: with another text in it, `ChunkReader` must say that text
under content and nothing else.

Why no other text in it can say anything else: where a JSON parser stands in front of the text depends on the bytes
before it alone, where it stands behind it on that and on the text being one string. And it is the only member of its
object but for a role, so that the other keys of text are read likewise.
"""

from __future__ import annotations

import re
from typing import Final

import orjson

from svir_proxy.bulk import MOST_VALUES
from svir_proxy.errors import ProxyError
from svir_proxy.response.chunk_reader import ALONE, ChunkReader
from svir_proxy.response.events import ContentDelta

_TEXT: Final = re.compile(
    rb'"delta"\s*+:\s*+\{\s*+(?:"role"\s*+:\s*+(?:"assistant"|null)\s*+,\s*+)?+("\w++"\s*+:\s*+"(?:[^"\\]++|\\.)++")\s*+\}',
    re.DOTALL,
)
_KINDS: Final = {b'"%b"' % key.encode(): kind for key, kind in ALONE.items()}
_LONGEST: Final = 64 * 1024
"""Bytes of a chunk up to which its frame is worth having."""
_TRIES: Final = 8
"""Frames that are learned in a row without ever coming again."""


class ChunkFrame:
    """What the chunks of one stream repeat; what they say goes to *reader*. *limit*: bytes of an event, at most."""

    __slots__ = (
        *("_colon", "_end", "_event_head", "_event_tail", "_head", "_is_known", "_last", "_limit", "_reader"),
        *("_start", "_tail", "_tries"),
    )

    def __init__(self, reader: ChunkReader, limit: int = MOST_VALUES) -> None:
        self._reader = reader
        self._limit = min(limit, MOST_VALUES)
        self._head: bytes | None = None
        self._tail = b""
        # of a whole event; where its member begins, and ends from the end on; what stands between key and text
        self._event_head: bytes | None = None
        self._event_tail = self._colon = b""
        self._start = self._end = 0
        self._last = b""  # what may have a frame to be learned
        self._is_known = False  # the frame has come again
        self._tries = _TRIES

    def read(self, data: bytes) -> bool:
        """Read the chunk in *data* if it is the frame with a text in it, and say whether it is."""
        if self._last:
            self.settle()
        head, tail = self._head, self._tail
        if head is None or not data.startswith(head) or not data.endswith(tail):
            return False
        key, _, text = data[len(head) : -len(tail)].partition(b":")
        if key not in _KINDS or len(data) >= MOST_VALUES:
            return False
        try:
            said = orjson.loads(text)
        except orjson.JSONDecodeError:
            return False
        if type(said) is not str:
            return False
        self._is_known = True
        self._reader.text(_KINDS[key], said)
        return True

    def read_event(self, data: bytes) -> bool:
        """Read the event *data* if it is all of one on one line, with a chunk that `read` would read; say whether.

        Nothing before it may be unread. There is no line end in a head or tail that was learned for this, none in a key
        that is known, and none from one quote of a JSON string to the other.
        """
        if self._last:
            self.settle()
        head = self._event_head
        if head is None or not data.startswith(head) or not data.endswith(self._event_tail) or len(data) > self._limit:
            return False
        key, _, text = data[self._start : self._end].partition(self._colon)
        if key not in _KINDS or text[:1] != b'"' or text[-1:] != b'"':
            return False
        try:
            said = orjson.loads(text)
        except orjson.JSONDecodeError:
            return False
        self._is_known = True
        self._reader.text(_KINDS[key], said)
        return True

    def learn(self, data: bytes) -> None:
        """Take the frame of *data*, a chunk that was no repetition, if it has one: with `settle`."""
        if self._is_known:
            self._is_known = False
            self._tries = _TRIES
        if self._tries > 0 and len(data) <= _LONGEST:
            self._tries -= 1
            self._last = data

    def settle(self) -> None:
        """Do what `learn` left to be done: when the client has its text, at the latest with the next chunk."""
        data, self._last = self._last, b""
        found = _TEXT.search(data)
        if found is not None:
            head, tail = data[: found.start(1)], data[found.end(1) :]
            if self._says_its_text(head, tail, "x" * len(data)):
                self._head, self._tail = head, tail
                self._learn_event(head, found[1], tail)

    def _learn_event(self, head: bytes, member: bytes, tail: bytes) -> None:
        """Know the event again that a chunk makes, unless it has line ends or is written in a rare way."""
        colon = b": " if member.partition(b":")[2][:1] == b" " else b":"
        if b"\n" in head or b"\n" in tail:
            self._event_head = None
        else:
            self._event_head, self._event_tail = b"data: " + head, tail + b"\n\n"
            self._start, self._end, self._colon = len(self._event_head), -len(self._event_tail), colon

    def _says_its_text(self, head: bytes, tail: bytes, text: str) -> bool:
        """Whether the frame says *text*, which is longer than any that stands in it, and nothing else."""
        try:
            chunk = orjson.loads(b'%b"content":"%b"%b' % (head, text.encode(), tail))
            return self._reader.preview(chunk) == [ContentDelta(text)]
        except (orjson.JSONDecodeError, ProxyError):
            return False
