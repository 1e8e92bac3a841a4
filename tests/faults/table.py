"""The faults: what the upstream does, and what the client must see of it.

One row is one fault for one kind of request; most stand in pairs, for a stream and for a whole answer. ``connections``
are those that the upstream has accepted when a faultless request has followed the fault: 1 where the connection could be
used again, one more for each that could not.
"""

from __future__ import annotations

import gzip
import itertools
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tests.faults.judge import Sees
from tests.faults.upstream import Begun, End, Flood, Gone, HalfClose, Reset, Send, Shown, Spoilt, Step, Taken, Trickle
from tests.faults.wire import (
    CHUNKED,
    DOCUMENT,
    DONE,
    EVENTS,
    GOOD,
    JSON,
    LAST_CHUNK,
    ROLE,
    STREAM,
    TEXT,
    chunk,
    chunked,
    dumps,
    error,
    head,
    sized,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Script = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """One row.

    Attributes:
        streamed: Whether the client asks for a stream.
        turns: What the upstream does each time the request arrives; it must arrive exactly so often.
        sees: What the client must see.
        backend: Whom it asks: one of the rig's.
        connections: What the upstream must have accepted, see above.
        warm: A faultless request goes first, so that the fault meets a connection that was used before.
        more: Fields of the request, see `Rig.ask`.
        noted: What the header of changes must tell.
    """

    streamed: bool
    turns: tuple[Script, ...]
    sees: Sees
    backend: str = "patient"
    connections: int = 2
    warm: bool = False
    noted: str = ""
    more: dict[str, Any] = field(default_factory=dict)


STREAM_HEAD: Final = head(CHUNKED)
JSON_HEAD: Final = head(CHUNKED, media=JSON)
_CHUNKS: Final = tuple(map(chunk, EVENTS))
_TWO: Final = STREAM_HEAD + b"".join(_CHUNKS[:3])
"""A stream that has said two words."""
_WHOLE: Final = Sees()
_FIRST: Final = Sees(0, "upstream_timeout", r"timeouts\.first_output")
_FAILED: Final = Sees(0, "upstream_failed")
_BAD: Final = Sees(0, "upstream_bad_response")
_CUT: Final = Sees(0, "stream_truncated")


# where it ends: bytes until then, words in them (-1: not even a head), and whether the answer is whole by then

_STREAM_POINTS: Final[dict[str, tuple[bytes, int, bool]]] = {
    "before the head": (b"", -1, False),
    "within the status line": (STREAM_HEAD[:12], -1, False),
    "within the head": (STREAM_HEAD[:40], -1, False),
    "at the head's last byte": (STREAM_HEAD[:-1], -1, False),
    "after the head": (STREAM_HEAD, 0, False),
    "within the first event": (STREAM_HEAD + _CHUNKS[0][:40], 0, False),
    "before any word": (STREAM_HEAD + _CHUNKS[0], 0, False),
    "within an event": (_TWO + _CHUNKS[3][:-9], 2, False),
    "within the size of a chunk": (_TWO + _CHUNKS[3][:1], 2, False),
    "between events": (_TWO + _CHUNKS[3], 3, False),
    "before the finish": (STREAM_HEAD + b"".join(_CHUNKS[:6]), 5, False),
    "before [DONE]": (STREAM_HEAD + b"".join(_CHUNKS[:8]), 5, False),
    "within [DONE]": (STREAM_HEAD + b"".join(_CHUNKS[:8]) + _CHUNKS[8][:12], 5, False),
    "before the last chunk": (STREAM_HEAD + b"".join(_CHUNKS), 5, True),
}
_DOCUMENT_POINTS: Final[dict[str, tuple[bytes, int, bool]]] = {
    "before the head": (b"", -1, False),
    "within the status line": (JSON_HEAD[:12], -1, False),
    "within the head": (JSON_HEAD[:40], -1, False),
    "at the head's last byte": (JSON_HEAD[:-1], -1, False),
    "after the head": (JSON_HEAD, 0, False),
    "within a chunk": (JSON_HEAD + chunk(DOCUMENT)[:90], 0, False),
    "between chunks": (JSON_HEAD + chunk(DOCUMENT[:90]), 0, False),
    "before the last brace": (JSON_HEAD + chunk(DOCUMENT[:-1]), 0, False),
    "before the last chunk": (JSON_HEAD + chunk(DOCUMENT), 0, True),
}
_ENDS: Final[dict[str, Script]] = {"resets": (Reset(),), "closes": (End(),), "half-closes": (HalfClose(),)}


def _cuts() -> Iterator[tuple[str, Fault]]:
    """It stops at each point, in each way."""
    for streamed, points in ((True, _STREAM_POINTS), (False, _DOCUMENT_POINTS)):
        for point, (data, words, whole) in points.items():
            begin = (Send(data), Shown(max(words, 0)))
            cut = _FAILED if words < 0 else Sees(words, "stream_truncated")
            for way, end in _ENDS.items():
                yield f"{way} {point}", Fault(streamed, ((*begin, *end),), _WHOLE if whole else cut)
            stalled, backend = _FIRST, "first"
            if whole and streamed:
                stalled, backend = _WHOLE, "patient"  # [DONE] is the end, whatever the framing says
            elif words > 0:
                stalled, backend = Sees(words, "upstream_timeout", r"timeouts\.idle"), "idle"
            yield f"stalls {point}", Fault(streamed, ((*begin, Gone()),), stalled, backend)


def _connecting() -> Iterator[tuple[str, Fault]]:
    """It fails before it can read a request."""
    nobody = Sees(0, "upstream_unreachable")
    for backend, sees in {
        "refuses": nobody,
        "no such name": nobody,
        "https to plain": nobody,
        "https to silence": Sees(0, "upstream_timeout", "could not be connected in time"),
        "resets": _FAILED,
        "closes": _FAILED,
        "tls": _FAILED,
    }.items():
        for streamed in (True, False):
            yield f"backend: {backend}", Fault(streamed, (), sees, backend, connections=1)


def _early() -> Iterator[tuple[str, Fault]]:
    """It does not wait for the end of a long request."""
    more = {"words": 1_500_000}
    too_long = Sees(0, "invalid_request", "too many words")
    for backend, sees in {
        "answers early": too_long,
        "answers early and closes": too_long,
        "answers early and well": _WHOLE,
        "takes no more": _FIRST,
        "resets within the request": _FAILED,
        "closes within the request": _FAILED,
        "half-closes within the request": _FAILED,
    }.items():
        for streamed in (True, False):
            yield f"backend: {backend}", Fault(streamed, (), sees, backend, connections=1, more=more)


def _whatever() -> Iterator[tuple[str, Fault]]:
    """The same for both kinds of request: heads, statuses, connections."""
    for streamed, good in GOOD.items():
        for name, (script, sees, connections) in _responses(good, streamed=streamed).items():
            yield name, Fault(streamed, (script,), sees, connections=connections)
        interim = b"HTTP/1.1 102 Processing\r\n\r\n"
        yield "a 1xx, then nothing", Fault(streamed, ((Send(interim), Gone()),), _FIRST, "first")
        half_error = head("Content-Length: 500", status="500 Oops", media=JSON) + b'{"error":{"message":"half'
        yield "an error that stalls", Fault(streamed, ((Send(half_error), Gone()),), _FAILED)
        yield "an error that is cut", Fault(streamed, ((Send(half_error), Taken(), Reset()),), _FAILED)


def _responses(good: bytes, *, streamed: bool) -> dict[str, tuple[Script, Sees, int]]:
    media = "text/event-stream" if streamed else JSON
    framing = f"Content-Length: {len(STREAM if streamed else DOCUMENT)}"
    body = STREAM if streamed else DOCUMENT
    interim = b"HTTP/1.1 102 Processing\r\n\r\n"
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n"
    crash = {"message": "the engine died", "type": "server_error", "code": 500}
    rows: dict[str, tuple[Script, Sees, int]] = {
        "no fault": ((Send(good),), _WHOLE, 1),
        "byte by byte": ((Trickle(good),), _WHOLE, 1),
        # interim responses
        "late 1xx": ((Send(interim), Taken(), Send(hints), Taken(), Send(good)), _WHOLE, 1),
        "1xx with the answer": ((Send(interim + hints + good),), _WHOLE, 1),
        "many 1xx": ((*(Send(interim), Taken()) * 100, Send(good)), _WHOLE, 1),
        "1xx without end": ((Send(interim), Flood(interim * 100)), _BAD, 2),
        "1xx, then the end": ((Send(interim), Taken(), End()), _FAILED, 2),
        "1xx after the answer": ((Send(good), Taken(), Send(interim), Spoilt()), _WHOLE, 2),
        "101": ((Send(head("Upgrade: x", "Connection: upgrade", status="101 X", media="")), Gone()), _BAD, 2),
        # heads
        "fields without end": ((Send(b"HTTP/1.1 200 OK\r\n"), Flood(b"x-field: " + b"v" * 1000 + b"\r\n")), _BAD, 2),
        "a field without end": ((Send(b"HTTP/1.1 200 OK\r\nx-field: "), Flood(b"v" * 1000)), _BAD, 2),
        "a reason without end": ((Send(b"HTTP/1.1 200 "), Flood(b"v" * 1000)), _BAD, 2),
        "too many fields": ((Send(head(*["x: y"] * 300, framing, media=media) + body), Gone()), _BAD, 2),
        "trailers without end": (
            (Send(head(CHUNKED, media=media) + chunk(body) + b"0\r\n"), Flood(b"x-field: " + b"v" * 1000 + b"\r\n")),
            _WHOLE,
            2,
        ),
        "an extension without end": ((Send(head(CHUNKED, media=media) + b"5;"), Flood(b"v" * 1000)), _CUT, 2),
        # lengths
        "no bytes at all": ((Send(head("Content-Length: 0", media=media)),), _CUT, 1),
        "two lengths": ((Send(head("Content-Length: 5", framing, media=media) + body), Gone()), _BAD, 2),
        "a length and chunks": ((Send(head(framing, CHUNKED, media=media) + body), Gone()), _BAD, 2),
        "a negative length": ((Send(head("Content-Length: -5", media=media) + body), Gone()), _BAD, 2),
        "a length of words": ((Send(head("Content-Length: many", media=media) + body), Gone()), _BAD, 2),
        "an unknown coding": ((Send(head("Transfer-Encoding: gzip", media=media) + body), Gone()), _BAD, 2),
        "one byte too many": ((Send(sized(body, media=media) + b"x"), Spoilt()), _WHOLE, 2),
        # connections
        "two responses at once": ((Send(good * 2), Spoilt()), _WHOLE, 2),
        "an unasked response": ((Send(good), Taken(), Send(good), Spoilt()), _WHOLE, 2),
        "closes when idle": ((Send(good), Taken(), End()), _WHOLE, 2),
        "half-closes when idle": ((Send(good), Taken(), HalfClose()), _WHOLE, 2),
        "resets when idle": ((Send(good), Taken(), Reset()), _WHOLE, 2),
        "says close, and stays": ((Send(head("Connection: close", framing, media=media) + body), Spoilt()), _WHOLE, 2),
        "HTTP/1.0": ((Send(head(version="1.0", media=media) + body), End()), _WHOLE, 2),
        "HTTP/1.0, kept": (
            (Send(head("Connection: keep-alive", framing, version="1.0", media=media) + body),), _WHOLE, 1,
        ),
        "HTTP/1.0, reset": ((Send(head(version="1.0", media=media) + body[:40]), Taken(), Reset()), _CUT, 2),
        "no length": ((Send(head(media=media) + body), HalfClose()), _WHOLE, 2),
        # statuses
        "200 and an error": ((Send(sized(dumps({"error": crash}), media=JSON)),), Sees(0, "upstream_failed", "died"), 1),
        "200 and a page": (
            (Send(sized(b"<!DOCTYPE html><title>Login</title>", media="text/html")),), Sees(0, "upstream_bad_response"), 1,
        ),
        "200 and null": ((Send(sized(b"null", media=JSON)),), _BAD, 1),
        "200 and {}": ((Send(sized(b"{}", media=JSON)),), _BAD, 1),
        "204": ((Send(head(status="204 No Content", media="")),), _CUT, 1),
        "304": ((Send(head(status="304 Not Modified", media="")),), _BAD, 1),
        "429": (
            (Send(head("Retry-After: 7", "Content-Length: 0", status="429 X")),), Sees(0, "rate_limit_exceeded"), 1,
        ),
        "401": ((Send(error("401 X", "Incorrect API key provided: upstream-secret")),), Sees(0, "upstream_auth_failed"), 1),
        "500 and JSON": ((Send(error("500 X", "CUDA out of memory")),), Sees(0, "upstream_failed", "CUDA out of"), 1),
        "500 and a page": (
            (Send(sized(b"<html><h1>Internal <b>Error</b></h1></html>", status="500 X", media="text/html")),),
            Sees(0, "upstream_failed", "Internal Error"), 1,
        ),
        "502 and a page": ((Send(sized(b"<html>Bad Gateway</html>", status="502 X", media="text/html")),), _FAILED, 1),
        "503 and a page": (
            (Send(sized(b"<html>Busy</html>", status="503 X", media="text/html")),), Sees(0, "upstream_unavailable"), 1,
        ),
        "504 and nothing": ((Send(head("Content-Length: 0", status="504 X")),), Sees(0, "upstream_timeout"), 1),
        "an error without end": ((Send(head(status="500 X", media="text/html")), Flood(b"e" * 5000)), _FAILED, 2),
    }  # fmt: skip
    # what is no HTTP
    for name, said in {
        "HTTP/0.9": b"<html>It works!</html>\n",
        "HTTP/2": b"HTTP/2 200\r\n\r\n",
        "HTTP/3.7": head(framing, version="3.7", media=media) + body,
        "a status of 99": head(framing, status="099 X", media=media) + body,
        "a status of four digits": head(framing, status="2000 X", media=media) + body,
        "no status": b"HTTP/1.1 OK\r\n\r\n",
        "a TLS alert": b"\x15\x03\x01\x00\x02\x02\x46",
        "a line of SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
        "a line of SMTP": b"500 5.5.1 Command unrecognized\r\n",
        "a frame of HTTP/2": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00",
        "only NUL": b"\x00" * 10,
        "a folded field": b"HTTP/1.1 200 OK\r\nx: y\r\n z\r\n" + f"{framing}\r\n\r\n".encode() + body,
        "NUL in a field": b"HTTP/1.1 200 OK\r\nx: \x00\r\n" + f"{framing}\r\n\r\n".encode() + body,
        "a blank before the colon": b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n" + body,
    }.items():
        rows[name] = (Send(said), Gone()), _BAD, 2
    # redirects; the target is one of the rig's, and must not be asked
    for status in ("301 X", "302 X", "303 X", "307 X", "308 X"):
        rows[status[:3]] = ((Send(head("Location: /trap", "Content-Length: 0", status=status, media="")),), _BAD, 1)
    # compressed
    coded = "Content-Encoding: gzip"
    packed = gzip.compress(body, mtime=0)
    rows["gzip"] = ((Send(head(coded, f"Content-Length: {len(packed)}", media=media) + packed),), _WHOLE, 1)
    rows["gzip byte by byte"] = (
        (Trickle(head(coded, f"Content-Length: {len(packed)}", media=media) + packed),), _WHOLE, 1,
    )  # fmt: skip
    rows["gzip that is none"] = ((Send(head(coded, framing, media=media) + body),), _BAD, 1)
    rows["an encoding nobody asked for"] = (
        (Send(head("Content-Encoding: br", framing, media=media) + body),), _BAD, 1,
    )  # fmt: skip
    return rows


def _streams() -> Iterator[tuple[str, Fault]]:
    """What only a stream can suffer."""

    def row(*script: Step, words: int, kind: str | None, connections: int = 2) -> Fault:
        sees = _WHOLE if kind is None else Sees(words, kind)
        return Fault(True, (script,), sees, connections=connections)

    until_done = b"".join(EVENTS[:-1])
    yield "no length, no [DONE]", row(Send(head() + until_done), End(), words=5, kind=None)
    yield (
        "no length, no [DONE], reset",
        row(Send(head() + until_done), Shown(5), Reset(), words=5, kind="stream_truncated"),
    )
    yield (
        "no length, no finish",
        row(Send(head() + ROLE + b"".join(TEXT)), Shown(5), End(), words=5, kind="stream_truncated"),
    )
    yield "no length, no blank line", row(Send(head() + STREAM[:-1]), End(), words=5, kind=None)
    longer = head(f"Content-Length: {len(STREAM) + 10}")
    yield "longer length", row(Send(longer + STREAM), End(), words=5, kind=None)
    yield "longer length, stalls", row(Send(longer + STREAM), Gone(), words=5, kind=None)
    yield "longer length, no [DONE]", row(Send(longer + until_done), Shown(5), End(), words=5, kind="stream_truncated")
    shorter = head(f"Content-Length: {len(STREAM) - 10}")
    yield "shorter length", row(Send(shorter + STREAM), Spoilt(), words=5, kind=None)
    to_two = len(ROLE + TEXT[0] + TEXT[1])
    yield (
        "much shorter length",
        row(Send(head(f"Content-Length: {to_two + 20}") + STREAM), Spoilt(), words=2, kind="stream_truncated"),
    )
    for name, bad in _BAD_CHUNKS.items():
        yield name, row(Send(_TWO), Shown(2), Send(bad), Gone(), words=2, kind="stream_truncated")
        yield f"{name}, at once", row(Send(_TWO + bad), Gone(), words=2, kind="stream_truncated")
    events = {
        "an error event": (b'data: {"error":{"message":"died","code":500}}\n\n', "upstream_failed"),
        "an error by name": (b"event: error\ndata: died\n\n", "upstream_failed"),
        "an event that is no JSON": (b"data: {oops\n\n", "upstream_bad_response"),
    }
    for name, (event, kind) in events.items():
        yield name, row(Send(_TWO), Shown(2), Send(chunk(event)), Gone(), words=2, kind=kind)
        first = Send(STREAM_HEAD + chunk(event))
        yield f"{name}, at first", Fault(True, ((first, Gone()),), Sees(0, kind))
    after = b"".join(_CHUNKS) + chunk(TEXT[0]) + LAST_CHUNK
    yield "words after [DONE]", row(Send(STREAM_HEAD + after), words=5, kind=None, connections=1)
    yield "only [DONE]", Fault(True, ((Send(chunked(DONE)),),), _BAD, connections=1)
    yield "only comments", Fault(True, ((Send(STREAM_HEAD + chunk(b": ping\n\n") * 9), Gone()),), _FIRST, "first")
    # keep-alives are no output
    comments = (Send(_TWO), Shown(2), Flood(chunk(b": ping\n\n")))
    yield "comments without end", Fault(True, (comments,), Sees(2, "upstream_timeout", r"\.idle"), "idle")
    yield "a document", row(Send(GOOD[False]), words=5, kind=None, connections=1)
    packer = zlib.compressobj(wbits=31)
    packed = [packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in EVENTS]
    for name, data in {"gzip, half": packed[:4], "gzip, without its end": packed[:-1]}.items():
        words = min(len(data) - 1, 5)
        script = Send(sized_packed(b"".join(data)))
        yield name, row(script, words=words, kind="stream_truncated", connections=1)


_BAD_CHUNKS: Final = {
    "a chunk of size zz": b"zz\r\n",
    "a chunk of size -5": b"-5\r\nabcde\r\n",
    "a chunk of any size": b"fffffffffffffffff\r\n",
    "a chunk without size": b"\r\n\r\n",
    "a chunk that is longer than it says": b"5\r\n: pings\n\n\r\n",
    "a chunk with a bare line feed": b"5\n: a\n\n\r\n",
}


def sized_packed(data: bytes, media: str = "text/event-stream") -> bytes:
    """A response whose body is compressed."""
    return head("Content-Encoding: gzip", f"Content-Length: {len(data)}", media=media) + data


def _documents() -> Iterator[tuple[str, Fault]]:
    """What only a whole answer can suffer."""

    def row(*script: Step, sees: Sees, backend: str = "patient", connections: int = 2) -> Fault:
        return Fault(False, (script,), sees, backend, connections)

    longer = head(f"Content-Length: {len(DOCUMENT) + 10}", media=JSON)
    yield "longer length", row(Send(longer + DOCUMENT), End(), sees=_WHOLE)
    yield "longer length, stalls", row(Send(longer + DOCUMENT), Gone(), sees=_FIRST, backend="first")
    yield "longer length, cut", row(Send(longer + DOCUMENT[:-5]), Taken(), Reset(), sees=_CUT)
    shorter = head(f"Content-Length: {len(DOCUMENT) - 5}", media=JSON)
    yield "shorter length", row(Send(shorter + DOCUMENT), Spoilt(), sees=_BAD)
    yield "no length, cut", row(Send(head(media=JSON) + DOCUMENT[:-5]), End(), sees=_BAD)
    for name, bad in _BAD_CHUNKS.items():
        yield name, row(Send(JSON_HEAD + chunk(DOCUMENT[:50]) + bad), Gone(), sees=_CUT)
    yield "a stream", row(Send(GOOD[True]), sees=_WHOLE, connections=1)
    yield "a stream, cut", row(Send(_TWO), Taken(), Reset(), sees=_CUT)
    stalled = Sees(0, "upstream_timeout", r"timeouts\.idle")
    yield "a stream, stalled", row(Send(_TWO), Gone(), sees=stalled, backend="idle")
    packed = gzip.compress(DOCUMENT, mtime=0)
    yield "gzip, half", row(Send(sized_packed(packed[: len(packed) // 2], JSON)), sees=_CUT, connections=1)
    yield "gzip, damaged", row(Send(sized_packed(packed[:20] + b"\xff" * 50, JSON)), sees=_BAD, connections=1)


def _reused() -> Iterator[tuple[str, Fault]]:
    """A connection that was used before ends just when it is used again."""
    for streamed, good in GOOD.items():
        answer = (Send(good),)
        for way, end in _ENDS.items():
            yield f"reused: {way}", Fault(streamed, (end, answer), _WHOLE, warm=True)
            yield f"reused: {way}, twice", Fault(streamed, (end, end), _FAILED, warm=True, connections=3)
            half = (Send(good[:30]), Taken(), *end)
            yield f"reused: {way} after half a head", Fault(streamed, (half,), _FAILED, warm=True)
            yield f"reused: {way}, then half a head", Fault(streamed, (end, half), _FAILED, warm=True, connections=3)
            interim = (Send(b"HTTP/1.1 102 Processing\r\n\r\n"), Taken(), *end)
            yield f"reused: {way} after a 1xx", Fault(streamed, (interim,), _FAILED, warm=True)
            begun = (Send(head(CHUNKED)), Taken(), *end)
            yield f"reused: {way} after the head", Fault(streamed, (begun,), _CUT, warm=True)


def _minds() -> Iterator[tuple[str, Fault]]:
    """It rejects an optional field, is asked again without it, and thinks otherwise.

    Each row has a model of its own: what the proxy learns in one is none of the others' business.
    """
    models = itertools.count()
    rejection = error("400 Bad Request", "Unknown field", param="seed")
    no = (Send(rejection),)
    no_and_close = (Send(rejection.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)), End())
    half_a_no = head("Content-Length: 500", status="400 Bad Request", media=JSON) + b'{"error":{"message":"Unkn'

    def row(*turns: Script, sees: Sees, connections: int = 2, backend: str = "patient") -> Fault:
        return Fault(True, turns, sees, f"{backend} {next(models)}", connections, more={"seed": 1})

    for streamed, good in GOOD.items():
        yes = (Send(good),)
        rejected = Sees(0, "unsupported_parameter")
        for name, fault in {
            "yes": row(no, yes, sees=_WHOLE, connections=1),
            "closes, yes": row(no_and_close, yes, sees=_WHOLE),
            "no again": row(no, no, sees=rejected, connections=1),
            "500": row(
                no, (Send(error("500 X", "crashed")),), sees=Sees(0, "upstream_failed", "crashed"), connections=1
            ),
            "stalls": row(no, (Gone(),), sees=_FIRST, backend="later"),
            "stalls after the head": row(no, (Send(good[:200]), Gone()), sees=_FIRST, backend="later"),
            "resets": row(no, (Reset(),), yes, sees=_WHOLE),  # not a byte on a reused connection
            "resets, twice": row(no, (Reset(),), (Reset(),), sees=_FAILED, connections=3),
            "closes, resets": row(no_and_close, (Reset(),), sees=_FAILED, connections=3),
            "half a head": row(no, (Send(good[:30]), Taken(), Reset()), sees=_FAILED),
            "no HTTP": row(no, (Send(b"\x00\r\n\r\n"), Gone()), sees=_BAD),
            "half a no": row((Send(half_a_no), Gone()), sees=Sees(0, "invalid_request")),
        }.items():
            yield f"mind: {name}", replace(fault, streamed=streamed)
    said = (Send(_TWO), Shown(2))
    yield "mind: cut", row(no, (*said, Reset()), sees=Sees(2, "stream_truncated"))
    yield "mind: stalls after words", row(no, (*said, Gone()), sees=Sees(2, "upstream_timeout", "idle"), backend="idle")
    # once a word is out nothing is asked again
    late = b'data: {"error":{"message":"Unknown field","param":"seed","code":400}}\n\n'
    yield "mind: no after words", row((*said, Send(chunk(late)), Gone()), sees=Sees(2, "unsupported_parameter"))


def _demands() -> Iterator[tuple[str, Fault]]:
    """A call is demanded, which the upstream does not see to: its words are held, and it is asked for the call."""
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    more = {"tools": [tool], "tool_choice": "required"}
    for streamed, good in GOOD.items():
        words, half = (Send(good),), good[: good.index(b" two")]
        for name, again, connections, backend in (
            ("words", words, 1, "patient"),
            ("stalls", (Gone(),), 2, "later"),
            ("stalls after the head", (Send(good[:200]), Gone()), 2, "later"),
            ("half a head", (Send(good[:30]), Taken(), Reset()), 2, "patient"),
            ("cut", (Send(half), Taken(), Reset()), 2, "patient"),
            ("half-closed", (Send(half), HalfClose()), 2, "patient"),
            ("no HTTP", (Send(b"\x00\r\n\r\n"), Gone()), 2, "patient"),
            ("500", (Send(error("500 X", "crashed")),), 1, "patient"),
        ):
            noted = "required=unmet" if name == "words" else "required=repeat_failed:upstream_|stream_truncated"
            yield (
                f"demand: words, then {name}",
                Fault(streamed, (words, again), _WHOLE, backend, connections, noted=noted, more=more),
            )
        resets = ((Reset(),), (Reset(),))
        yield "demand: words, then resets", Fault(streamed, (words, *resets), _WHOLE, connections=3, more=more)
        # what is held was never output, so that its failure has a status
        yield "demand: cut", Fault(streamed, ((Send(half), Taken(), Reset()),), _CUT, more=more)
        stalled = Sees(0, "upstream_timeout", r"timeouts\.idle") if streamed else _FIRST
        backend = "idle" if streamed else "first"
        yield "demand: stalls", Fault(streamed, ((Send(half), Gone()),), stalled, backend, more=more)


def _table() -> dict[str, Fault]:
    table: dict[str, Fault] = {}
    for rows in (_cuts, _connecting, _whatever, _streams, _documents, _reused, _minds, _demands, _early):
        for name, fault in rows():
            key = f"{name} - {'stream' if fault.streamed else 'whole'}"
            assert key not in table, key
            table[key] = fault
    return table


TABLE: Final = _table()


def _begun(fault: Fault) -> Fault | None:
    """The same fault after the stream has begun for want of output; None where that cannot be."""
    if not fault.streamed or fault.sees.words or fault.sees.error is None or not fault.turns or fault.warm:
        return None
    *first, last = fault.turns
    return replace(fault, turns=(*first, (Begun(), *last)), sees=replace(fault.sees, begun=True))


BEGUN: Final = {name: late for name, fault in TABLE.items() if (late := _begun(fault)) is not None}
"""Faults before any output, met by a stream that the proxy has begun all the same: their errors have no status."""
