r"""Large inline media taken out of a request body before it is parsed, and put back after it is written.

A photo is megabytes of base64 in a JSON string. Parsing and writing it costs 5 ms a megabyte, during which no other
stream gets a word, and several copies. No rewrite ever looks inside; so the payload stays where it arrived, a short
marker stands for it in the JSON, and the bytes go out from where they are.

What is media: data URLs of images, sound, films and PDFs, in any place, and base64 under a key ``data``, as OpenAI has
it for sound. The slashes in it may be escaped, as PHP writes each of them.
"""

from __future__ import annotations

import re
import secrets
from typing import Final, Self

import orjson

_HEAD: Final = re.compile(
    rb'"data(?::(?i:(?:image|audio|video)\\?/|application\\?/pdf)[^",\\]{0,180};base64,|"[ \t\r\n]*:[ \t\r\n]*")'
)
"""What stands before a payload, the key or the URL; what it begins with is looked for at the speed of C."""
_BEFORE: Final = b":[{, \t\r\n"
"""What may stand before a string of the JSON itself: so a quote inside of another string is none."""
_READ: Final = re.compile(rb"\\[^/]")
"""An escape that would have to be read."""
_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_\\"
_SAMPLE: Final = 4096
"""Bytes of a payload that are looked at to tell it from a text, from all over it."""
_BACKSLASH: Final = ord("\\")
SMALLEST: Final = 16 * 1024
"""Bytes of a payload worth the trouble."""
_MOST_HEADS: Final = 10_000
"""Heads without a large payload, after which none is looked for any more."""


class Blobs:
    """The payloads of one body, by the markers that stand for them."""

    __slots__ = ("_payloads", "_prefix", "_view")

    def __init__(self, raw: bytes | bytearray) -> None:
        self._view = memoryview(raw)
        self._prefix = b"svir-blob-" + secrets.token_hex(8).encode() + b"-"
        self._payloads: list[tuple[int, int]] = []

    @classmethod
    def lift(cls, raw: bytes | bytearray) -> tuple[bytes | bytearray, Self | None]:
        """*raw* with markers in place of large payloads, and the payloads; *raw* itself where it has none."""
        if len(raw) < SMALLEST:
            return raw, None
        blobs = cls(raw)
        kept: list[bytes | bytearray] = []
        done = at = small = 0
        while small < _MOST_HEADS and (head := _HEAD.search(raw, at)):
            start = head.end()
            at = raw.find(b'"', start)
            if at < 0:
                break
            # A head that begins the body has the last byte before it: then it is no request anyway.
            if at - start > SMALLEST and raw[head.start() - 1] in _BEFORE and _is_plain(raw, start, at):
                kept += [raw[done:start], blobs._hold(start, at)]
                done = at
            else:
                small += 1
        if not kept:
            return raw, None
        return b"".join((*kept, raw[done:])), blobs

    @property
    def count(self) -> int:
        """How many payloads there are."""
        return len(self._payloads)

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return sum(end - start for start, end in self._payloads)

    def fill(self, body: bytes) -> list[bytes | memoryview]:
        """*body*, with its payloads in the place of their markers, in pieces; markers may be missing or repeated."""
        first, *rest = body.split(self._prefix)
        pieces: list[bytes | memoryview] = [first]
        for part in rest:
            number, _, tail = part.partition(b";")
            start, end = self._payloads[int(number)]
            pieces += [self._view[start:end], tail]
        return pieces

    def whole(self, value: str) -> str:
        """A string of the body, once it is parsed, as the client sent it."""
        text: str = orjson.loads(b"".join(self.fill(orjson.dumps(value))))
        return text

    def _hold(self, start: int, end: int) -> bytes:
        self._payloads.append((start, end))
        return self._prefix + b"%d;" % (len(self._payloads) - 1)


def _is_plain(raw: bytes | bytearray, start: int, end: int) -> bool:
    """Whether a payload is base64 as far as can be seen, which ends at its quote and need not be read."""
    if raw[start : end : (end - start) // _SAMPLE].translate(None, _BASE64):
        return False
    return raw.find(b"\\", start, end) < 0 or (raw[end - 1] != _BACKSLASH and not _READ.search(raw, start, end))
