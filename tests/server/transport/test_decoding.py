"""Decoding in pieces, and bombs."""

from __future__ import annotations

import gzip
import os
import zlib

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.server.transport.decoding import PIECE, Decoder, content_decoder


def _raw(data: bytes) -> bytes:
    coder = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return coder.compress(data) + coder.flush()


ENCODED = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZIP", gzip.compress),
    "joined gzip": ("gzip", lambda data: gzip.compress(data[:5]) + gzip.compress(data[5:])),
    "deflate": ("deflate", zlib.compress),
    "bare deflate": ("deflate", _raw),
    "uncompressed deflate": ("deflate", lambda data: zlib.compress(data, 0)),
    "identity and gzip": ("identity, gzip", gzip.compress),
}


def _decoder(encoding: str, max_bytes: int | None = None, **more: int) -> Decoder:
    decoder = content_decoder(httpx.Headers({"content-encoding": encoding}), max_bytes=max_bytes, **more)
    assert decoder is not None
    return decoder


@given(st.sampled_from(sorted(ENCODED)), st.binary(max_size=200), st.integers(1, 50))
def test_any_cut_gives_the_data_back(name: str, data: bytes, size: int) -> None:
    encoding, encode = ENCODED[name]
    encoded = encode(data)
    decoder = _decoder(encoding)
    assert b"".join(decoder(encoded[i : i + size]) for i in range(0, len(encoded), size)) == data
    decoder.finish()


@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.parametrize(
    "data", [os.urandom(300_000), b"abc" * 1_000_000, bytes(3 * PIECE)], ids=["random", "text", "zeros"]
)
def test_pieces_are_bounded_and_whole(name: str, data: bytes) -> None:
    encoding, encode = ENCODED[name]
    decoder = _decoder(encoding, max_ratio=2000)
    pieces = list(decoder.pieces(encode(data)))
    decoder.finish()
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) <= PIECE


def test_no_output_stays_behind_when_the_input_is_used_up() -> None:
    """A few bits of input can stand for more than a piece, and bare deflate has nothing after them."""
    for size in range(PIECE - 300, PIECE + 600):
        decoder = _decoder("deflate")
        assert len(decoder(_raw(bytes(size)))) == size
        decoder.finish()


@pytest.mark.parametrize("encoding", [None, "", "identity", " Identity , "])
def test_nothing_to_undo(encoding: str | None) -> None:
    headers = httpx.Headers({} if encoding is None else {"content-encoding": encoding})
    assert content_decoder(headers, max_bytes=None) is None


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, gzip", "gzip, deflate", "gzip;q=1", "\u0001"])
def test_other_encodings_are_refused_at_once(encoding: str) -> None:
    with pytest.raises(httpx.DecodingError, match="not asked for"):
        _decoder(encoding)


def test_two_headers_are_two_encodings() -> None:
    headers = httpx.Headers([("content-encoding", "gzip"), ("content-encoding", "gzip")])
    with pytest.raises(httpx.DecodingError):
        content_decoder(headers, max_bytes=None)


BOMB = gzip.compress(bytes(50_000_000))


def test_a_bomb_goes_off_in_small_pieces() -> None:
    decoder, made = _decoder("gzip"), 0

    def go_off() -> None:
        nonlocal made
        for piece in decoder.pieces(BOMB):
            made += len(piece)

    with pytest.raises(httpx.DecodingError, match="without measure"):
        go_off()
    # The ratio is of what zlib has been given, so the first slice of input sets the allowance.
    assert made <= 200 * 16 * 1024 + PIECE


def test_the_total_is_bounded_across_reads() -> None:
    decoder = _decoder("gzip", max_bytes=1000)
    encoded = gzip.compress(os.urandom(1001))
    with pytest.raises(httpx.DecodingError, match="too large"):
        b"".join(decoder(encoded[i : i + 1]) for i in range(len(encoded)))
    exactly = _decoder("gzip", max_bytes=1000)
    assert len(exactly(gzip.compress(os.urandom(1000)))) == 1000


@pytest.mark.parametrize("name", ENCODED)
def test_every_cut_short_is_noticed(name: str) -> None:
    encoding, encode = ENCODED[name]
    encoded = encode(b"hello, hello, hello")
    whole = gzip.compress(b"hello")  # the first of two joined files is whole by itself
    for end in range(1, len(encoded)):
        decoder = _decoder(encoding)
        decoder(encoded[:end])
        if name == "joined gzip" and end == len(whole):
            decoder.finish()
        else:
            with pytest.raises(httpx.DecodingError, match="broke off"):
                decoder.finish()


def test_an_empty_body_is_no_damage() -> None:
    for encoding in ("gzip", "deflate"):
        decoder = _decoder(encoding)
        assert decoder(b"") == b""
        decoder.finish()


@pytest.mark.parametrize(
    ("encoding", "data", "words"),
    [
        ("gzip", b"not gzip at all", "damaged"),
        ("gzip", gzip.compress(b"a" * 99, mtime=0)[:-8] + bytes(8), "damaged"),
        ("gzip", gzip.compress(b"a", mtime=0) + b"junk", "damaged"),
        ("deflate", zlib.compress(b"a") + b"junk", "bytes follow"),
        ("deflate", _raw(b"a") + b"junk", "bytes follow"),
        ("deflate", b"\xff\xff\xff", "damaged"),
    ],
)
def test_damage(encoding: str, data: bytes, words: str) -> None:
    with pytest.raises(httpx.DecodingError, match=words):
        _decoder(encoding)(data)
