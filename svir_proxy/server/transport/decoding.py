"""Undoing a content-encoding piece by piece, and no further than agreed.

Requests ask for ``identity``; this is for servers, and the proxies before them, that compress all the same. A few
kilobytes of gzip can stand for gigabytes, so the output is bounded in total and per piece.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE: Final = 64 * 1024
"""Bytes of output held at once by `Decoder.pieces`."""

_INPUT: Final = 16 * 1024
"""Bytes of input given to zlib at once: what it has not used yet is copied for each piece of output."""

_RATIO_FROM: Final = 1024 * 1024
"""Bytes of output up to which the ratio is not looked at: short texts compress as they like."""

_GZIP: Final = 16 + zlib.MAX_WBITS
_ZLIB: Final = zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS


def content_decoder(headers: httpx.Headers, *, max_bytes: int | None, max_ratio: int = 200) -> Decoder | None:
    """What undoes the content-encoding named in *headers*; None when there is none.

    *max_bytes* bounds the whole output (None: endless streams), *max_ratio* output against input from 1 MiB on.
    Raises DecodingError for other encodings than gzip and deflate, and for several.
    """
    names = [
        n for n in headers.get("content-encoding", "").lower().replace(" ", "").split(",") if n and n != "identity"
    ]
    if not names:
        return None
    if names in (["gzip"], ["x-gzip"]):
        return Decoder(_GZIP, max_bytes, max_ratio)
    if names == ["deflate"]:
        return Decoder(None, max_bytes, max_ratio)
    raise httpx.DecodingError("the server used a content-encoding that was not asked for")


class Decoder:
    """One body. Call it with each read, then `finish`. Raises DecodingError, after which it is of no more use."""

    __slots__ = ("_given", "_made", "_max_bytes", "_max_ratio", "_start", "_wbits", "_zlib")

    def __init__(self, wbits: int | None, max_bytes: int | None, max_ratio: int) -> None:
        self._wbits = wbits
        self._max_bytes = max_bytes
        self._max_ratio = max_ratio
        self._zlib = None if wbits is None else zlib.decompressobj(wbits)
        self._start = b""
        self._given = 0
        self._made = 0

    def __call__(self, data: bytes) -> bytes:
        """All that *data* stands for; bounded by the limits, which are enforced piece by piece."""
        return b"".join(self.pieces(data))

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """The same in pieces of at most `PIECE` bytes, each made when it is asked for; must be exhausted."""
        if self._zlib is None:
            data = self._start + data
            if len(data) < 2:
                self._start = data
                return
            self._start = b""
            # "deflate" should be zlib's format; some servers send the bare one. The header of zlib tells.
            zlib_format = data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2], "big") % 31 == 0
            self._zlib = zlib.decompressobj(_ZLIB if zlib_format else _RAW)
        for start in range(0, len(data), _INPUT):
            yield from self._inflate(data[start : start + _INPUT])

    def finish(self) -> None:
        """The body has ended: raises DecodingError when its encoding has not."""
        if self._start or (self._given and (self._zlib is None or not self._zlib.eof)):
            raise httpx.DecodingError("the compressed response broke off")

    def _inflate(self, data: bytes) -> Iterator[bytes]:
        self._given += len(data)
        more = bool(data)
        while more:
            assert self._zlib is not None
            if self._zlib.eof:
                if self._wbits != _GZIP:
                    raise httpx.DecodingError("bytes follow the compressed response")
                self._zlib = zlib.decompressobj(_GZIP)  # gzip files may be joined
            try:
                piece = self._zlib.decompress(data, PIECE)
            except zlib.error:
                raise httpx.DecodingError("the compressed response is damaged") from None
            self._made += len(piece)
            if self._max_bytes is not None and self._made > self._max_bytes:
                raise httpx.DecodingError("the compressed response is too large")
            if self._made > max(_RATIO_FROM, self._max_ratio * self._given):
                raise httpx.DecodingError("the compressed response grows without measure")
            if piece:
                yield piece
            data = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail
            # A full piece may be the half of what zlib holds, with no input left to tell of it.
            more = bool(data) or (len(piece) == PIECE and not self._zlib.eof)
