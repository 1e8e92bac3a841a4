"""What clients do, each with what must become of it: what they say, and at which point they leave."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.faults.clients import (
    CHAT,
    CHUNKED,
    JSON,
    Act,
    Arrived,
    Ends,
    Hear,
    Leave,
    Played,
    Say,
    Taken,
    chat,
    question,
    request,
)
from tests.faults.upstream import Gone, Send, Shown, Step
from tests.faults.upstream import Taken as Read
from tests.faults.wire import EVENTS, GOOD, ROLE, STREAM, TEXT, chunk, error, head

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES: Final = tuple(f"exchange {900_000 + number}" for number in range(4))
"""The chat requests of a row."""
MAX_BODY: Final = 2**20
"""Bytes of a request's body that the table's proxy takes."""
_ONE, _TWO, *_ = NAMES


@dataclass(frozen=True, slots=True)
class Row:
    """A client.

    Attributes:
        acts: What it does.
        upstream: What the upstream does, for each chat request a script for each time it arrives there. A request whose
            script is not played is a fault.
        once: It makes sense in one go only; else it is also said byte by byte.
    """

    acts: tuple[Act, ...]
    upstream: tuple[tuple[tuple[Step, ...], ...], ...] = ()
    once: bool = False


_GET: Final = request()
_BAD: Final = Hear("invalid_request", headers=(("connection", "close"),))
_WELL: Final = {streamed: ((Send(good),),) for streamed, good in GOOD.items()}
_STAYS: Final = (Say(_GET), Hear())
"""The connection is as good as before."""


def _well(data: bytes, *heard: Hear, once: bool = False) -> Row:
    """A request of no chat that is answered, after which the connection goes on."""
    return Row((Say(data), *heard, *_STAYS), once=once)


def _refused(data: bytes, says: str = "", *, before: int = 0, once: bool = False) -> Row:
    """What is no request ends the connection: the one that follows in the same breath is never seen."""
    bad = Hear("invalid_request", says=says, headers=(("connection", "close"),))
    return Row(
        (Say(data + request("GET", "/smuggled")), *([Hear(times=before)] if before else []), bad, Ends()), once=once
    )


def _pipelines() -> Iterator[tuple[str, Row]]:
    close = "Connection: close"
    stream, whole, second = chat(_ONE, streamed=True), chat(_ONE), chat(_TWO)
    both = (_WELL[True], _WELL[False])
    yield "two chats", Row((Say(stream + second), Hear(chat="stream"), Hear(chat="whole"), *_STAYS), both)
    yield (
        "a chat among others",
        Row((Say(_GET + stream + _GET * 3), Hear(), Hear(chat="stream"), Hear(times=3)), both[:1]),
    )
    yield "1000 requests in one write", Row((Say(_GET * 1000), Hear(times=1000), *_STAYS), once=True)
    yield (
        "a stream, and 1000 requests",
        Row((Say(stream + _GET * 1000), Hear(chat="stream"), Hear(times=1000)), both[:1], once=True),
    )
    yield (
        "more than may wait",
        Row((Say(whole + _GET * 4000), Hear(chat="whole"), Hear(times=4000), *_STAYS), both[1:], once=True),
    )
    last = (("connection", "close"),)
    yield "the last", Row((Say(request("GET", "/healthz", close)), Hear(headers=last), Ends()))
    yield (
        "more after the last",
        Row((Say(request("GET", "/healthz", close) + _GET * 50), Hear(headers=last), Ends()), once=True),
    )
    yield (
        "much more after the last",
        Row((Say(request("GET", "/healthz", close) + b"x" * 10**6), Hear(headers=last), Ends()), once=True),
    )
    yield (
        "a chat that is the last",
        Row((Say(chat(_ONE, close) + second), Hear(chat="whole", headers=last), Ends()), both[1:]),
    )
    yield (
        "an error among others",
        Row((Say(_GET + request("GET", "/nowhere") + _GET), Hear(), Hear("unknown_url"), Hear())),
    )
    yield (
        "bad JSON among others",
        Row(
            (Say(request("POST", CHAT, JSON, body=b"{") + whole), Hear("invalid_json"), Hear(chat="whole"), *_STAYS),
            both[1:],
        ),
    )
    yield "empty lines between", _well(b"\r\n\r\n" + _GET + b"\r\n" + _GET, Hear(times=2))
    yield "no HTTP after a request", _refused(_GET + b"\x00\x01\x02\r\n\r\n", before=1)
    yield (
        "a body that is no body behind a chat",
        Row(
            (Say(whole + request("POST", CHAT, JSON, CHUNKED) + b"zz\r\n"), Hear(chat="whole"), _BAD, Ends()), both[1:]
        ),
    )


def _ambiguous() -> Iterator[tuple[str, Row]]:
    """What one server reads as one request, and another as two."""
    body = b"0\r\n\r\n"

    def post(*fields: str, body: bytes = body, **more: str) -> bytes:
        return request("POST", CHAT, JSON, *fields, body=body, **more)  # type: ignore[arg-type]

    for name, fields in {
        "two lengths": ("Content-Length: 5", "Content-Length: 6"),
        "the same length twice": ("Content-Length: 5", "Content-Length: 5"),
        "a list of lengths": ("Content-Length: 5, 5",),
        "a signed length": ("Content-Length: +5",),
        "a hexadecimal length": ("Content-Length: 0x5",),
        "an empty length": ("Content-Length:",),
        "a length past 64 bits": ("Content-Length: 18446744073709551621",),
        "a length and chunks": ("Content-Length: 5", CHUNKED),
        "chunks and a length": (CHUNKED, "Content-Length: 5"),
        "chunked, chunked": ("Transfer-Encoding: chunked, chunked",),
        "chunked twice": (CHUNKED, CHUNKED),
        "chunked, identity": ("Transfer-Encoding: chunked, identity",),
        "identity": ("Transfer-Encoding: identity",),
        "gzip, chunked": ("Transfer-Encoding: gzip, chunked",),
        "xchunked": ("Transfer-Encoding: xchunked",),
        "chunked with a parameter": ("Transfer-Encoding: chunked;a=b",),
        "chunked in quotes": ('Transfer-Encoding: "chunked"',),
        "chunked after a vertical tab": ("Transfer-Encoding: \x0bchunked",),
        "chunked on a folded line": ("Transfer-Encoding:\r\n chunked",),
        "a folded field": (CHUNKED, "X-A: 1\r\n  2"),
        "a blank before the colon": ("Transfer-Encoding : chunked",),
        "a tab before the colon": ("Content-Length\t: 5",),
        "a blank in a name": ("Content Length: 5",),
        "a blank before a name": (" Content-Length: 5",),
        "a name of nothing": (": 5",),
        "no colon": ("Content-Length",),
        "bytes in a name": ("Content-L\xe9ngth: 5",),
        "NUL in a name": ("Content-Length\0: 5",),
        "NUL in a value": (CHUNKED, "X-A: a\0b"),
        "a control character in a value": (CHUNKED, "X-A: a\x01b"),
        "a bare carriage return": (CHUNKED, "X-A: a\rContent-Length: 0"),
        "a bare line feed": (CHUNKED, "X-A: a\nContent-Length: 0"),
    }.items():
        yield f"framing: {name}", _refused(request("POST", CHAT, JSON, *fields) + body)
    yield "framing: lines end in line feeds", _refused(request().replace(b"\r\n", b"\n"))
    yield "framing: the head ends in a line feed", _refused(request()[:-2] + b"\n")
    for name, chunks in {
        "a signed size": b"-1\r\nx\r\n",
        "a hexadecimal size": b"0x1\r\nx\r\n",
        "a size and a blank": b"1 \r\nx\r\n",
        "no size": b"\r\nx\r\n",
        "more than the size": b"1\r\nxy\r\n",
        "a size past 64 bits": b"10000000000000000\r\nx\r\n",
        "a bare line feed after the size": b"1\nx\r\n",
        "a bare line feed after the data": b"1\r\nx\n",
        "a bare line feed after an extension": b"1;a\nx\r\n",
        "a bare carriage return in an extension": b"1;a\rb\r\nx\r\n",
    }.items():
        yield f"chunks: {name}", _refused(post(CHUNKED, body=chunks + body))
    yield "chunks: a length in the trailer", _refused(post(CHUNKED, body=b"1\r\nx\r\n0\r\nContent-Length: 5\r\n\r\n"))
    content = question(_ONE, streamed=False)
    pieces = b"".join(chunk(content[at : at + 7]) for at in range(0, len(content), 7))
    for name, (field, data) in {
        "as it should be": (CHUNKED, pieces + b"0\r\n\r\n"),
        "in capitals": ("TRANSFER-ENCODING: CHUNKED", pieces + b"0\r\n\r\n"),
        "mixed": ("tRaNsFeR-eNcOdInG:\tcHuNkEd  ", pieces + b"0\r\n\r\n"),
        "extensions": (CHUNKED, pieces.replace(b"7\r\n", b'7;a=b;c="d";e\r\n') + b"00;f\r\n\r\n"),
        "a trailer": (CHUNKED, pieces + b"0\r\nX-A: b\r\nHost: evil\r\nX-A: c\r\n\r\n"),
        "sizes with zeros": (CHUNKED, pieces.replace(b"7\r\n", b"00007\r\n") + b"0000\r\n\r\n"),
    }.items():
        yield f"chunks: {name}", Row((Say(post(field, body=data)), Hear(chat="whole"), *_STAYS), (_WELL[False],))


def _hosts() -> Iterator[tuple[str, Row]]:
    other = Hear("forbidden_host", says="evil")
    models = "/v1/models/nothing"
    known = Hear("forbidden_host")
    yield "host: two", _refused(request("GET", "/healthz", "Host: evil"), "more than one Host")
    yield "host: the same twice", _refused(request("GET", "/healthz", "HOST: localhost"), "more than one Host")
    yield "host: two on a folded line", _refused(request("GET", "/healthz", host="localhost\r\n Host: evil"))
    yield "host: none", _refused(request(host=None), "no Host")
    yield "host: none, as HTTP/1.0", Row((Say(request("GET", models, host=None, version="1.0")), known, Ends()))
    yield "host: of nothing", _well(request("GET", models, host=""), known)
    yield "host: between blanks", _well(request("GET", "/nowhere", host=" \tlocalhost\t "), Hear("unknown_url"))
    yield "host: another", _well(request("GET", models, host="evil"), other)
    yield "host: another with a port", _well(request("GET", models, host="evil:8484"), other)
    yield "host: in capitals, with a port", _well(request("GET", "/nowhere", host="LocalHost:1"), Hear("unknown_url"))
    yield "host: a list", _well(request("GET", models, host="localhost, evil"), known)
    yield "host: with a path", _well(request("GET", models, host="evil/localhost"), other)
    yield "host: bytes", _well(request("GET", models, host="evil\xff"), known)
    yield "target: another host", _well(request("GET", f"http://evil{models}"), other)
    yield "target: another host and user", _well(request("GET", f"http://localhost@evil{models}"), other)
    yield "target: another host before an @", _well(request("GET", f"http://evil?@localhost{models}"), other)
    yield "target: this host", _well(request("GET", "http://localhost:1/healthz", host="evil"), Hear())
    yield "target: this host and no Host", _refused(request("GET", "http://localhost/healthz", host=None), "no Host")
    yield "target: chat", Row((Say(request("POST", f"http://127.0.0.1{CHAT}", JSON, body=question(_ONE, streamed=False))), Hear(chat="whole")), (_WELL[False],))  # fmt: skip
    yield "target: two slashes", _well(request("GET", "//evil/v1/models"), Hear("unknown_url"))
    yield "target: an asterisk", _well(request("OPTIONS", "*"), Hear("unknown_url"))
    yield "target: an authority", _refused(request("GET", "evil:80"))
    yield "target: a tunnel", _refused(request("CONNECT", "evil:80"), "tunnel")
    yield "target: bytes", _refused(request("GET", "/\xff"))
    yield "target: NUL", _refused(request("GET", "/\0"))
    yield "target: a blank", _refused(request("GET", "/a b"))
    yield "target: quoted controls", _well(request("GET", "/%00%0d%0aX-A:%20b%ff"), Hear("unknown_url"))
    yield "target: dots", _well(request("GET", "/v1/../healthz"), Hear("unknown_url"))


def _heads() -> Iterator[tuple[str, Row]]:
    many = tuple(f"X-{number}: y" for number in range(10_000))
    yield (
        "head: 10000 fields",
        Row((Say(request("GET", "/healthz", *many)), Hear("invalid_request", says="too long"), Ends()), once=True),
    )
    yield "head: 10000 fields, and a body", Row((Say(request("POST", CHAT, *many, body=b"x" * MAX_BODY)), Hear("invalid_request", says="too long"), Ends()), once=True)  # fmt: skip
    yield "head: 5000 fields", _well(request("GET", "/healthz", *many[:5000]), Hear(), once=True)
    yield (
        "head: a target of 64 KiB",
        Row((Say(request("GET", "/" + "a" * 2**16)), Hear("invalid_request", says="too long"), Ends()), once=True),
    )
    yield "head: a target of 60 KiB", _well(request("GET", "/" + "a" * 60 * 2**10), Hear("unknown_url"), once=True)
    yield "head: a query of 60 KiB", _well(request("GET", "/healthz?" + "a" * 60 * 2**10), Hear(), once=True)
    yield "head: a value of 60 KiB", _well(request("GET", "/healthz", "X-A: " + "a" * 60 * 2**10), Hear(), once=True)
    yield (
        "head: a value of 1 MiB",
        Row(
            (Say(request("GET", "/healthz", "X-A: " + "a" * 2**20)), Hear("invalid_request", says="too long"), Ends()),
            once=True,
        ),
    )
    yield "head: bytes in a value", _well(request("GET", "/healthz", "X-A: \xe9\xff\x80"), Hear())
    yield (
        "head: an id that is none",
        _well(request("GET", "/healthz", "X-Request-Id: \xe9 ,;"), Hear(headers=(("x-request-id", "[0-9a-f]{32}"),))),
    )
    yield (
        "head: the client's id",
        _well(request("GET", "/healthz", "X-Request-Id: a.b-c_1"), Hear(headers=(("x-request-id", "a.b-c_1"),))),
    )
    for name, data in {
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2,
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
        "HTTP/0.9": b"GET /healthz\r\n",
        "HTTP/1.2": request(version="1.2"),
        "HTTP/2.0": request(version="2.0"),
        "a method in lower case": request("get"),
        "a method of its own": request("BREW"),
        "a blank first": b" " + request(),
        "tabs": request().replace(b" ", b"\t"),
        "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
        "no text": bytes(range(128, 256)),
        "NULs": bytes(1000),
    }.items():
        yield f"head: {name}", _refused(data)


def _methods() -> Iterator[tuple[str, Row]]:
    for path, allowed, methods in (
        (CHAT, "POST", "GET PUT DELETE PATCH TRACE OPTIONS PROPFIND"),
        ("/v1/models", "GET, HEAD", "POST PUT DELETE PATCH TRACE OPTIONS"),
        ("/healthz", "GET, HEAD", "POST DELETE OPTIONS"),
    ):
        told = Hear("method_not_allowed", headers=(("allow", allowed),))
        for method in methods.split():
            yield f"method: {method} {path}", _well(request(method, path), told)
    yield "method: HEAD /healthz", _well(request("HEAD"), Hear(head=True, headers=(("content-length", "[1-9][0-9]*"),)))
    yield "method: HEAD of chat", _well(request("HEAD", CHAT), Hear("method_not_allowed", head=True))
    yield "method: HEAD of nothing", _well(request("HEAD", "/nowhere"), Hear("unknown_url", head=True))
    yield (
        "method: HEAD without a Host",
        Row((Say(request("HEAD", host=None)), Hear("invalid_request", head=True), Ends())),
    )
    yield "method: a GET with a body", _well(request("GET", "/healthz", body=b"x" * 100), Hear())
    yield (
        "method: a POST to nowhere with a body",
        _well(request("POST", "/v1/files", body=b"x" * 100_000), Hear("unknown_url"), once=True),
    )


def _bodies() -> Iterator[tuple[str, Row]]:
    packed = gzip.compress(question(_ONE, streamed=False))
    media = Hear("unsupported_media_type")
    for name, fields in {
        "gzip": (JSON, "Content-Encoding: gzip"),
        "GZIP": (JSON, "Content-Encoding: GZIP"),
        "two codings": (JSON, "Content-Encoding: identity, gzip"),
        "an unknown coding": (JSON, "Content-Encoding: zstd, \xff"),
        "no type": (),
        "a form": ("Content-Type: application/x-www-form-urlencoded",),
        "text": ("Content-Type: text/plain",),
        "parts": ("Content-Type: multipart/form-data; boundary=a",),
        "bytes": ("Content-Type: \xff\xfe",),
    }.items():
        yield f"body: {name}", _well(request("POST", CHAT, *fields, body=packed), media)
    yield (
        "body: a bomb",
        _well(
            request("POST", CHAT, JSON, "Content-Encoding: gzip", body=gzip.compress(bytes(10**7))), media, once=True
        ),
    )
    for name, body in {"empty": b"", "NULs": bytes(100), "packed": packed, "bytes": b"\xff\xfe{}"}.items():
        fields = (JSON,) if body else (JSON, "Content-Length: 0")
        yield f"body: {name}, as JSON", _well(request("POST", CHAT, *fields, body=body), Hear("invalid_json"))
    text = question(_ONE, streamed=False)
    for name, fields in {
        "a charset": ("Content-Type: Application/JSON ; charset=utf-8",),
        "identity": (JSON, "Content-Encoding: identity"),
        "another JSON": ("Content-Type: application/vnd.api+json",),
    }.items():
        yield (
            f"body: {name}",
            Row((Say(request("POST", CHAT, *fields, body=text)), Hear(chat="whole"), *_STAYS), (_WELL[False],)),
        )
    fits = question(_ONE, streamed=False)
    fits = fits[:-1] + b" " * (MAX_BODY - len(fits)) + b"}"
    yield (
        "body: as large as may be",
        Row((Say(request("POST", CHAT, JSON, body=fits)), Hear(chat="whole"), *_STAYS), (_WELL[False],), once=True),
    )
    too_large = Hear("request_too_large", says=str(MAX_BODY))
    yield "body: a byte too large", _well(request("POST", CHAT, JSON, body=fits + b" "), too_large, once=True)
    yield "body: much too large", _well(request("POST", CHAT, JSON, body=fits * 20), too_large, once=True)
    in_chunks = b"".join(chunk(fits) for _ in range(20)) + b"0\r\n\r\n"
    yield (
        "body: much too large, in chunks",
        _well(request("POST", CHAT, JSON, CHUNKED, body=in_chunks), too_large, once=True),
    )
    yield (
        "body: much too large, the last",
        Row((Say(request("POST", CHAT, JSON, "Connection: close", body=fits * 20)), too_large, Ends()), once=True),
    )
    yield (
        "body: much too large, as HTTP/1.0",
        Row((Say(request("POST", CHAT, JSON, body=fits * 20, version="1.0")), too_large, Ends()), once=True),
    )
    yield (
        "body: said to be much too large",
        Row((Say(request("POST", CHAT, JSON, "Content-Length: 999999999999") + b"x" * 10**6), too_large), once=True),
    )
    yield (
        "body: of no use, then no chunk",
        Row((Say(request("POST", CHAT, CHUNKED)), media, Say(b"zz\r\n" + _GET), Ends())),
    )


def _expecting() -> Iterator[tuple[str, Row]]:
    expect = "Expect: 100-continue"
    body = question(_ONE, streamed=False)
    length = f"Content-Length: {len(body)}"
    once, close = Hear(chat="whole", continues=1), (("connection", "close"),)
    well = (_WELL[False],)
    asks = Say(request("POST", CHAT, JSON, expect, length))
    yield "expect: waits", Row((asks, Taken(), Say(body), once, *_STAYS), well)
    yield (
        "expect: in capitals",
        Row((Say(request("POST", CHAT, JSON, expect.upper(), length)), Taken(), Say(body), once), well),
    )
    in_chunks = Say(request("POST", CHAT, JSON, expect, CHUNKED))
    yield "expect: waits, in chunks", Row((in_chunks, Taken(), Say(chunk(body) + b"0\r\n\r\n"), once, *_STAYS), well)
    yield (
        "expect: does not wait",
        Row((Say(request("POST", CHAT, JSON, expect, body=body)), Hear(chat="whole"), *_STAYS), well, once=True),
    )
    yield "expect: no body", _well(request("GET", "/healthz", expect), Hear())
    yield (
        "expect: something else",
        Row((Say(request("POST", CHAT, JSON, "Expect: 200-ok", body=body)), Hear(chat="whole"), *_STAYS), well),
    )
    yield (
        "expect: as HTTP/1.0",
        Row(
            (
                Say(request("POST", CHAT, JSON, expect, body=body, version="1.0")),
                Hear(chat="whole", headers=close),
                Ends(),
            ),
            well,
        ),
    )
    large = Hear("request_too_large", headers=close)
    too_large = request("POST", CHAT, JSON, expect, f"Content-Length: {10 * MAX_BODY}")
    yield "expect: too large, waits", Row((Say(too_large), large, Ends()))
    yield (
        "expect: too large, and sent all the same",
        Row((Say(too_large), Taken(), Say(b"x" * 10 * MAX_BODY), large, Ends()), once=True),
    )
    yield (
        "expect: another type, and sent all the same",
        Row(
            (
                Say(request("POST", CHAT, expect, length)),
                Taken(),
                Say(body),
                Hear("unsupported_media_type", headers=close),
                Ends(),
            )
        ),
    )
    yield (
        "expect: a method that is not answered",
        Row((Say(request("PUT", CHAT, expect, length)), Hear("method_not_allowed", headers=close), Ends())),
    )
    yield "expect: two, one behind the other", Row(
        (Say(request("POST", CHAT, JSON, expect, body=body) + request("POST", CHAT, JSON, expect, f"Content-Length: {len(question(_TWO, streamed=False))}")),
         Hear(chat="whole"), Taken(), Say(question(_TWO, streamed=False)), once, *_STAYS),
        (_WELL[False], _WELL[False]), once=True,
    )  # fmt: skip


def _old() -> Iterator[tuple[str, Row]]:
    close = (("connection", "close"), ("transfer-encoding", ""))
    yield "1.0: GET", Row((Say(request(version="1.0")), Hear(headers=close), Ends()))
    yield (
        "1.0: that would stay",
        Row((Say(request("GET", "/healthz", "Connection: keep-alive", version="1.0")), Hear(headers=close), Ends())),
    )
    yield (
        "1.0: whole",
        Row((Say(chat(_ONE, version="1.0")), Hear(chat="whole", headers=close), Ends()), (_WELL[False],)),
    )
    yield (
        "1.0: a stream ends with the connection",
        Row(
            (Say(chat(_ONE, streamed=True, version="1.0")), Hear(chat="stream", to_end=True, headers=close), Ends()),
            (_WELL[True],),
        ),
    )
    yield (
        "1.0: chunks",
        _refused(request("POST", CHAT, JSON, CHUNKED, body=b"0\r\n\r\n", version="1.0"), "HTTP/1.0 has no"),
    )
    yield (
        "1.0: a length and chunks",
        _refused(request("POST", CHAT, JSON, CHUNKED, "Content-Length: 5", body=b"0\r\n\r\n", version="1.0")),
    )
    offer = ("Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAE", "Upgrade: h2c")
    body = question(_ONE, streamed=False)
    for name, data in {
        "with a body": request("POST", CHAT, JSON, *offer, body=body),
        "with chunks": request("POST", CHAT, JSON, *offer, CHUNKED, body=chunk(body) + b"0\r\n\r\n"),
    }.items():
        yield f"h2c: {name}", Row((Say(data), Hear(chat="whole"), *_STAYS), (_WELL[False],))
        yield (
            f"h2c: {name}, behind another",
            Row((Say(_GET + data + _GET), Hear(), Hear(chat="whole"), Hear()), (_WELL[False],)),
        )
    yield "h2c: without a body", _well(request("GET", "/healthz", *offer), Hear())
    yield (
        "a web socket",
        _well(
            request("GET", "/healthz", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"), Hear()
        ),
    )


def _leaving() -> Iterator[tuple[str, Row]]:
    """At every point, in every way: nothing is done any more."""
    got = head(CHUNKED)
    rejection = (Send(error("400 X", "Unknown field", param="seed")),)
    others = {"alone": b"", "others wait": _GET * 100, "half of another waits": chat(_TWO)[:-5]}
    for way in ("close", "reset", "half-close"):
        leave = (Leave(way), *([Ends(cut=True)] if way == "half-close" else []))
        for streamed in (True, False):
            form = "stream" if streamed else "whole"
            asked = chat(_ONE, streamed=streamed, seed=1)
            body_at = asked.index(b"\r\n\r\n") + 4
            for name, cut in {
                "before a word": 0,
                "within the method": 2,
                "within the target": 12,
                "within a field": 60,
                "before the head's end": body_at - 2,
                "after the head": body_at,
                "within the body": body_at + 20,
                "before the last byte": len(asked) - 1,
            }.items():
                yield f"leaves: {way}, {name} - {form}", Row((Say(asked[:cut]), Taken(), *leave), once=True)
            events = b"".join(map(chunk, EVENTS[:3]))
            for name, script in {
                "before the upstream answers": (Gone(),),
                "within the upstream's head": (Send(got[:30]), Read(), Gone()),
                "after the upstream's head": (Send(got), Read(), Gone()),
                "within the first event": (Send(got + chunk(ROLE[:20])), Read(), Gone()),
                "after the first word": (Send(got + chunk(ROLE) + chunk(TEXT[0])), Shown(0), Gone()),
                "between two events": (Send(got + events), Read(), Gone()),
                "within an event": (Send(got + events + chunk(TEXT[2][:30])), Read(), Gone()),
                "within the last event": (Send(got + chunk(STREAM[:-5])), Read(), Gone()),
                "within an error": (
                    Send(head("Content-Length: 99", status="500 X", media="application/json")),
                    Read(),
                    Gone(),
                ),
            }.items():
                for where, behind in others.items():
                    acts = (Say(asked + behind), Played(len(script) - 1), *leave)
                    if script[-1:] == script:
                        acts = (Say(asked + behind), Arrived(), *leave)
                    yield f"leaves: {way}, {name}, {where} - {form}", Row(acts, ((script,),), once=True)
            again = (rejection, (Gone(),))
            yield (
                f"leaves: {way}, while it is asked again - {form}",
                Row((Say(asked), Arrived(2), *leave), (again,), once=True),
            )
            yield (
                f"leaves: {way}, after the answer - {form}",
                Row((Say(asked), Hear(chat=form), *leave), (_WELL[streamed],), once=True),
            )


def _table() -> dict[str, Row]:
    table: dict[str, Row] = {}
    for rows in (_pipelines, _ambiguous, _hosts, _heads, _methods, _bodies, _expecting, _old, _leaving):
        for name, row in rows():
            assert name not in table, name
            table[name] = row
    return table


TABLE: Final = _table()
