"""Large inline media taken out of a request body before it is parsed, and put back after it is written.

A photo is megabytes of base64 in a JSON string. Parsing and writing it costs 1.5 ms a megabyte, during which no other
stream gets a word, and several copies. No rewrite ever looks inside; so the payload stays where it arrived, a short
marker stands for it in the JSON, and the bytes go out from where they are.
"""

from __future__ import annotations

import secrets
from typing import Final, Self

_OPENING: Final = b'"data:'
_BEFORE: Final = b":[, \t\r\n"
"""What may stand before a JSON string that is a value: so a quote inside of another string is none."""
_MEDIA: Final = (b"image/", b"audio/", b"video/")
SMALLEST: Final = 16 * 1024
"""Bytes of a payload worth the trouble."""
_HEAD: Final = 200
"""Bytes in which a data URL's comma stands."""


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
        done = at = 0
        while (at := raw.find(_OPENING, at)) >= 0:
            start = at + len(_OPENING)
            end = raw.find(b'"', start)
            comma = raw.find(b",", start, start + _HEAD)
            if raw[at - 1 : at] in _BEFORE and start < comma < end and end - comma > SMALLEST:
                head = raw[start:comma]
                if head.lower().startswith(_MEDIA) and head.endswith(b";base64") and raw.find(b"\\", start, end) < 0:
                    kept += [raw[done : comma + 1], blobs._hold(comma + 1, end)]
                    done = end
            at = start if end < 0 else end
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

    def _hold(self, start: int, end: int) -> bytes:
        self._payloads.append((start, end))
        return self._prefix + b"%d;" % (len(self._payloads) - 1)
