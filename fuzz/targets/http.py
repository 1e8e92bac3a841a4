"""The bytes of an HTTP response: read the same for every cut, never beyond what they say, never without bound."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final

import h11
import httpx

from fuzz.controls import Controls, chosen
from svir_proxy.conform.cases import load_cases
from svir_proxy.server.transport.decoding import PIECE, content_decoder
from svir_proxy.server.transport.limits import TransportLimits
from svir_proxy.server.transport.parser import ResponseParser
from tests.support.mutations import cut_up

_LIMITS: Final = TransportLimits()
_SMALL: Final = TransportLimits(head_bytes=200, headers=8)
_FRAMING: Final = {"content-length", "transfer-encoding", "connection", "content-encoding"}
_ENCODE: Final = {
    "gzip": gzip.compress, "deflate": zlib.compress, "bare deflate": lambda data: zlib.compress(data, wbits=-15),
}  # fmt: skip
_MIB: Final = 1 << 20
_RATIO: Final = 200


def check(data: bytes) -> str:
    """Raises where *data* breaks the reading; otherwise how it ended."""
    controls, wire = Controls.split(data)
    head_request = controls.number() % 8 == 7
    cut = cut_up(Random(controls.number()), wire)
    parser, body = _parse([wire], _LIMITS, head_request=head_request)
    again, same = _parse(cut, _LIMITS, head_request=head_request)
    assert _said(parser, body) == _said(again, same), f"cut as {cut}"
    _parse(cut, _SMALL, head_request=head_request)
    if not parser.complete:
        assert parser.error is not None
        return "refused"
    _compare(wire, parser, body, head_request=head_request)
    _decode(parser, body, Random(controls.number()))
    return "complete"


def seeds() -> Iterator[bytes]:
    """Recorded responses, framed in every way."""
    for number, case in enumerate(load_cases()):
        if case.response["status"] is not None and len(case.body) < 8000:
            wire = framed(Random(number), case.response["status"], case.response.get("headers") or {}, case.body)
            yield chosen(0, number % 256) + wire


def framed(random: Random, status: int, headers: Mapping[str, str], body: bytes) -> bytes:
    """A response as some server would write it, mostly right: lengths, chunks or neither, compressed or not."""
    lines = [f"{name}: {value}" for name, value in headers.items() if name.lower() not in _FRAMING]
    encoding = random.choice(("", "", "", "gzip", "deflate", "bare deflate"))
    if encoding:
        body = _ENCODE[encoding](body)
        lines.append(f"content-encoding: {encoding.rpartition(' ')[2]}")
    match random.randrange(5):
        case 0:
            lines.append(f"content-length: {len(body)}")
        case 1:
            lines.append("connection: close")
        case 2:
            lines.append(f"content-length: {max(0, len(body) + random.choice((-1, 1, 100)))}")
        case _:
            lines.append("transfer-encoding: chunked")
            pieces = [piece for piece in cut_up(random, body) if piece]
            body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    early = b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" if random.randrange(8) == 0 else b""
    head = "\r\n".join((f"HTTP/1.{random.choice('1110')} {status} X", *lines, "", ""))
    return early + head.encode("latin-1", "replace") + body


def _parse(reads: Sequence[bytes], limits: TransportLimits, *, head_request: bool) -> tuple[ResponseParser, bytes]:
    parser, body = ResponseParser(limits), b""
    parser.start(head_request=head_request)
    for read in reads:
        if parser.done:
            break
        if read:
            body += parser.feed(read)
    parser.end_of_input()
    assert parser.done
    parser.discard()
    return parser, body


def _said(parser: ResponseParser, body: bytes) -> tuple[object, ...]:
    head = (parser.status, parser.headers) if parser.head_complete else None
    return parser.complete, parser.error is None, head, body


def _compare(wire: bytes, parser: ResponseParser, body: bytes, *, head_request: bool) -> None:
    """Two readers that both take a response must take the same one: where they differ, one can be smuggled."""
    other = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    method = "HEAD" if head_request else "GET"
    other.send(h11.Request(method=method, target="/", headers=[("host", "h")]))
    other.send(h11.EndOfMessage())
    got, status = b"", 0
    try:
        other.receive_data(wire)
        other.receive_data(b"")
        while not isinstance(event := other.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                got += event.data
            elif event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                return
    except h11.RemoteProtocolError:
        return
    assert (status, got) == (parser.status, body), "h11 reads another response"


def _decode(parser: ResponseParser, body: bytes, random: Random) -> None:
    """A content-encoding is undone within its bounds, and the same for every cut."""
    results = []
    for reads in ([body], cut_up(random, body)):
        try:
            decoder = content_decoder(httpx.Headers(parser.headers), max_bytes=4 * _MIB, max_ratio=_RATIO)
            if decoder is None:
                return
            text = b""
            for read in reads:
                for piece in decoder.pieces(read):
                    assert 0 < len(piece) <= PIECE
                    text += piece
                    assert len(text) <= max(_MIB, _RATIO * len(body)) + PIECE
            decoder.finish()
        except httpx.DecodingError:
            results.append(None)
        else:
            results.append(text)
    assert results[0] == results[1], "another cut, another text"
