"""Large payloads leave a body before it is parsed and come back byte for byte."""

from __future__ import annotations

import base64

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.blobs import Blobs

BIG = base64.b64encode(bytes(range(256)) * 100)
MIME = base64.encodebytes(bytes(range(256)) * 100)


def url(media: bytes = b"image/png", payload: bytes = BIG) -> str:
    return (b"data:" + media + b";base64," + payload).decode()


def image(value: str) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": value}}


def body(*parts: object, **more: object) -> bytes:
    return orjson.dumps({"messages": [{"role": "user", "content": list(parts)}], **more})


@pytest.mark.parametrize(
    ("raw", "lifted"),
    [
        pytest.param(body(image(url())), 1, id="an image"),
        pytest.param(body(image(url()), image(url(b"image/jpeg"))), 2, id="two images"),
        pytest.param(body(image(url(b"IMAGE/PNG"))), 1, id="media types in any case"),
        pytest.param(body(image(url(b"image/png;charset=x"))), 1, id="with a parameter"),
        pytest.param(body(image(url(payload=BIG[:1000]))), 0, id="a small one is not worth it"),
        pytest.param(body(image(url(b"text/plain"))), 0, id="text is read by a rewrite"),
        pytest.param(body({"type": "text", "text": f'"{url()}"'}), 0, id="a quoted mention in a text"),
        pytest.param(body({"type": "text", "text": f'see: "{url()}" there'}), 0, id="a mention after a blank"),
        pytest.param(body(image(url())).replace(b"/", rb"\/"), 1, id="as PHP writes slashes"),
        pytest.param(body(image(url(payload=MIME))), 0, id="in lines"),
        pytest.param(body(image(url())).replace(b"/", rb"\u002f"), 0, id="other escapes are left to the parser"),
        pytest.param(body(image(url())).replace(b"A", b"\\\\"), 0, id="escaped backslashes are no escapes of slashes"),
        pytest.param(
            body({"type": "input_audio", "input_audio": {"data": BIG.decode(), "format": "wav"}}), 1, id="sound"
        ),
        pytest.param(
            body({"input_audio": {"data": BIG.decode()}}).replace(b'":"', b'" :\n"'), 1, id="with blanks between"
        ),
        pytest.param(body({"data": "word " * 10_000}), 0, id="a text under data"),
        pytest.param(body({"data": "漢字" * 10_000}), 0, id="a text without blanks under data"),
        pytest.param(body({"data": "a,b;" * 10_000}), 0, id="a table under data"),
        pytest.param(b'{"data":"%b"}' % (b"\x01" * 50_000), 0, id="what is no JSON under data"),
        pytest.param(body({"data": ["data", BIG.decode()]}), 0, id="a list under data"),
        pytest.param(body({"type": "text", "text": f'{{"data":"{BIG.decode()}"}}'}), 0, id="JSON in a text"),
        pytest.param(body({"file": {"file_data": url(b"application/pdf")}}), 1, id="a document"),
        pytest.param(body({"type": "text", "text": "x" * 50_000}), 0, id="no media"),
        pytest.param(b'{"a": "' + url().encode(), 0, id="a body that is cut"),
    ],
)
def test_payloads_leave_and_come_back(raw: bytes, lifted: int) -> None:
    small, blobs = Blobs.lift(raw)
    assert (len(raw) - len(small) > len(BIG) // 2 * lifted) if lifted else small is raw
    assert b"".join(blobs.fill(bytes(small))) == raw if blobs else lifted == 0
    size = len(BIG) + BIG.count(b"/") * (rb"\/" in raw)
    assert (blobs.count, blobs.size) == (lifted, size * lifted) if blobs else lifted == 0


def test_the_url_keeps_its_head_so_that_rewrites_can_tell_what_it_is() -> None:
    small, blobs = Blobs.lift(body(image(url())))
    assert blobs
    value = orjson.loads(small)["messages"][0]["content"][0]["image_url"]["url"]
    assert value.startswith("data:image/png;base64,")


def test_what_needs_a_payload_gets_it_as_the_client_meant_it() -> None:
    small, blobs = Blobs.lift(body(image(url())).replace(b"/", rb"\/"))
    assert blobs
    value = orjson.loads(small)["messages"][0]["content"][0]["image_url"]["url"]
    assert blobs.whole(value.removeprefix("data:image/png;base64,")) == BIG.decode()


def test_heads_of_nothing_do_not_hide_a_payload_but_if_they_have_no_end() -> None:
    few, many = ([image("data:image/png;base64,x")] * number for number in (100, 20_000))
    for parts, lifted in ((few, True), (many, False)):
        assert (Blobs.lift(body(*parts, image(url())))[1] is not None) == lifted


def test_payloads_follow_their_markers_wherever_a_rewrite_put_them() -> None:
    small, blobs = Blobs.lift(body(image(url()), image(url(b"image/gif", BIG[::-1]))))
    assert blobs
    value = orjson.loads(small)
    value["messages"][0]["content"].reverse()
    back = orjson.loads(b"".join(blobs.fill(orjson.dumps(value))))
    assert [part["image_url"]["url"][:14] for part in back["messages"][0]["content"]] == [
        "data:image/gif",
        "data:image/png",
    ]
    assert back["messages"][0]["content"][0]["image_url"]["url"].endswith(BIG[::-1].decode())


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_around_a_payload_never_raise(before: bytes, after: bytes) -> None:
    raw = before + b'"data:image/png;base64,' + BIG + b'"' + after
    small, blobs = Blobs.lift(raw)
    assert (b"".join(blobs.fill(bytes(small))) if blobs else small) == raw
