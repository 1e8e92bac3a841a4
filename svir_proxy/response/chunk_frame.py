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
    rb'"delta"\s*+:\s*+\{\s*+(?:(?>"role"\s*+:\s*+(?:"assistant"|null)\s*+,\s*+))?+'
    rb'("\w++"\s*+:\s*+"(?:(?>[^"\\]++|\\.))++")\s*+\}',
    re.DOTALL,
)
_KINDS: Final = {b'"%b"' % key.encode(): kind for key, kind in ALONE.items()}
_LONGEST: Final = 64 * 1024
"""Bytes of a chunk up to which its frame is worth having."""
_TRIES: Final = 8
"""Frames that are learned in a row without ever coming again."""


class ChunkFrame:
    """What the chunks of one stream repeat; what they say goes to *reader*. *limit*: bytes of an event, at most."""

    __slots__ = ("_colon", "_end", "_head", "_is_known", "_last", "_limit", "_reader", "_start", "_tail", "_tries")

    def __init__(self, reader: ChunkReader, limit: int = MOST_VALUES) -> None:
        self._reader = reader
        self._limit = min(limit, MOST_VALUES)
        # of the event that a chunk makes: what stands before and behind a key and its text, and between the two
        self._head: bytes | None = None
        self._tail = self._colon = b""
        self._start = self._end = 0  # where the key begins, and where the text ends, from the end on
        self._last = b""  # what may have a frame to be learned
        self._is_known = False  # the frame has come again
        self._tries = _TRIES

    def read(self, event: bytes) -> bool:
        """Read *event*, if it is all of one on one line, with a chunk that is the frame around a text; say whether.

        Nothing before it may be unread. There is no line end in head and tail, none in a key that is known, and none
        from one quote of a JSON string to the other.
        """
        if self._last:
            self.settle()
        head = self._head
        if head is None or not event.startswith(head) or not event.endswith(self._tail) or len(event) > self._limit:
            return False
        key, _, text = event[self._start : self._end].partition(self._colon)
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
        if found is None or b"\n" in data:
            return
        head, tail = data[: found.start(1)], data[found.end(1) :]
        if self._says_its_text(head, tail, "x" * len(data)):
            self._head, self._tail = b"data: " + head, tail + b"\n\n"
            self._colon = b": " if found[1].partition(b":")[2][:1] == b" " else b":"
            self._start, self._end = len(self._head), -len(self._tail)

    def _says_its_text(self, head: bytes, tail: bytes, text: str) -> bool:
        """Whether the frame says *text*, which is longer than any that stands in it, and nothing else."""
        try:
            chunk = orjson.loads(b'%b"content":"%b"%b' % (head, text.encode(), tail))
            return self._reader.preview(chunk) == [ContentDelta(text)]
        except (orjson.JSONDecodeError, ProxyError):
            return False
