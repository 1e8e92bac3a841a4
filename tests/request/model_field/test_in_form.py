"""The model of a form as clients' libraries write it, however it is cut, and forms that can be read in two ways."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.errors import ProxyError
from svir_proxy.request.model_field import ModelInForm, form_boundary
from tests.request.model_field.support import NEW, all_cuts, read, replaced, said


def form(*parts: bytes, end: bytes = b"--b--\r\n") -> bytes:
    """Parts, each with its head, between boundaries."""
    return b"".join(b"--b\r\n" + part + b"\r\n" for part in parts) + end


def part(name: bytes, content: bytes = b"m", *fields: bytes) -> bytes:
    """One part of a form."""
    return b"\r\n".join((b"Content-Disposition: form-data; name=" + name, *fields, b"", content))


MODEL: Final = part(b'"model"')
FILE: Final = part(b'"file"; filename="a \\"b\\".wav"', b"\r\n--\r\n-b\r\n--\0\n\r", b"Content-Type: audio/wav")

FOUND: Final = {
    "curl": form(FILE, MODEL),
    "httpx": form(MODEL, part(b'"response_format"', b"text"), FILE, end=b"--b--"),
    "undici": form(MODEL, part(b'"file"; filename="blob"', b"", b"Content-Type: application/octet-stream")),
    ".NET": form(
        b"Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name=model\r\n\r\nm",
        part(b"file; filename=a.wav; filename*=utf-8''a.wav", b"x"),
    ),
    "OkHttp": form(part(b'"model"', b"m", b"Content-Transfer-Encoding: binary", b"Content-Length: 1"), FILE),
    "nothing else": form(MODEL),
    "capitals": form(MODEL.replace(b"Content-Disposition", b"CONTENT-DISPOSITION"), FILE),
    "an epilogue": form(FILE, MODEL, end=b"--b--\r\nthe end --"),
}
NONE: Final = {
    "no part": b"--b--",
    "a file": form(FILE),
    "another name": form(part(b'"Model"'), part(b'"models"'), part(b'""')),
    "no text": form(part(b'"model"', b"")),
}
REFUSED: Final = {
    b"": "it breaks off before its last boundary",
    b"--b": "it breaks off",
    form(MODEL, end=b""): "it breaks off",
    form(MODEL, end=b"--b"): "it breaks off",
    form(MODEL)[:20]: "it breaks off",
    b"{}": "does not begin with the boundary",
    b"\r\n" + form(MODEL): "does not begin with the boundary",
    b"--c\r\n": "does not begin with the boundary",
    b"--b \r\n": "something stands behind a boundary",
    b"--bb": "something stands behind a boundary",
    form(MODEL).replace(b"--b--", b"--b-x"): "something stands behind a boundary",
    form(MODEL + b"\n--b\nContent-Disposition: form-data; name=model\n\nn"): "its boundary stands within a line",
    form(MODEL + b"x--b\r\n"): "its boundary stands within a line",
    form(MODEL, end=b"--b--\r\n" + form(MODEL)): "parts follow its last boundary",
    b"--b\r\n\r\nm\r\n--b--": "a part has no head",
    form(b"Content-Disposition: form-data;\r\n name=model\r\n\r\nm"): "has a line that is no field",
    form(b"Content-Type: text/plain\r\n\r\nm"): "a part has no content-disposition of the form",
    form(part(b'"x"; name="model"')): "a part has no content-disposition of the form",
    form(part(b'"mod\\el"')): "a part has no content-disposition of the form",
    form(part(b"\"x\"; name*=utf-8''model")): "a part has no content-disposition of the form",
    form(part(b'"x"', b"m", b"content-disposition: form-data; name=model")): "the same field twice",
    b"--b\r\nX: " + b"x" * 20_000: "the head of a part is too long",
    form(MODEL, part(b'"model"', b"n")): "invalid_request model: The request has more than one 'model'",
    form(part(b'"model"', b""), MODEL): "more than one 'model'",
    form(part(b'"model"', b"m" * 4097)): "invalid_request model: 'model' is longer than 4096 bytes.",
    form(part(b'"model"; filename="m"')): "invalid_request model: 'model' must be plain text, not a file.",
    form(part(b'"model"', b"bQ==", b"Content-Transfer-Encoding: base64")): "must be plain text",
    form(part(b'"model"', b"m", b"Content-Type: text/plain; charset=utf-16")): "must be plain text",
    form(part(b'"model"', b"\xff")): "invalid_request model: 'model' is not UTF-8.",
}


@pytest.mark.parametrize("who", FOUND)
def test_the_model_is_found(who: str) -> None:
    body = FOUND[who]
    at = body.index(b"\r\nm\r\n") + 2
    for cuts in all_cuts(body):
        field = read(ModelInForm(b"b"), body, *cuts)
        assert (field.model, field.span) == ("m", (at, at + 1)), cuts
    assert replaced(field, body) == body[:at] + NEW.encode() + body[at + 1 :]


@pytest.mark.parametrize("what", NONE)
def test_there_is_no_model(what: str) -> None:
    for cuts in all_cuts(NONE[what]):
        assert read(ModelInForm(b"b"), NONE[what], *cuts).model == ""


@pytest.mark.parametrize(("body", "words"), REFUSED.items())
def test_what_is_refused(body: bytes, words: str) -> None:
    for cuts in [(), (len(body) // 2,), tuple(range(1, len(body)))]:
        with pytest.raises(ProxyError) as caught:
            read(ModelInForm(b"b"), body, *cuts)
        assert words in said(caught.value), cuts


@given(content=st.binary(max_size=40), model=st.text(max_size=10), data=st.data())
def test_whatever_the_file_holds(content: bytes, model: str, data: st.DataObject) -> None:
    boundary = b"----0123456789abcdef"
    value = model.encode()
    body = (
        b"--%b\r\n" % boundary + part(b'"file"; filename=f', content) + b"\r\n--%b\r\n" % boundary
        + part(b'"model"', value) + b"\r\n--%b--\r\n" % boundary
    )  # fmt: skip
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=6))
    field = read(ModelInForm(boundary), body, *cuts)
    assert (field.model, field.span) == (model, (body.rindex(value + b"\r\n--"), body.rindex(b"\r\n--")))


def test_no_more_is_held_than_a_boundary() -> None:
    field = ModelInForm(b"b")
    field.feed(form(FILE, end=b""))
    for _ in range(1000):
        field.feed(b"x" * 1000)
        assert len(field._buffer) < 10


@pytest.mark.parametrize(
    ("media", "boundary"),
    [
        ("multipart/form-data; boundary=abc", b"abc"),
        (
            "Multipart/Form-Data;boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW ",
            b"----WebKitFormBoundary7MA4YWxkTrZu0gW",
        ),
        ('multipart/form-data; boundary="a b=c:d"', b"a b=c:d"),
        ("multipart/form-data; charset=utf-8; boundary=abc", b"abc"),
        ('multipart/form-data; boundary=abc; charset="utf-8"', b"abc"),
        ("multipart/form-data", None),
        ("multipart/form-data; boundary=", None),
        ('multipart/form-data; boundary=""', None),
        ('multipart/form-data; boundary="abc', None),
        ('multipart/form-data; boundary="ab "', None),
        ("multipart/form-data; boundary=" + "a" * 71, None),
        ("multipart/form-data; boundary=a; boundary=b", None),
        ("multipart/form-data; boundary=a, b", None),
        ("multipart/mixed; boundary=abc", None),
    ],
)
def test_boundaries(media: str, boundary: bytes | None) -> None:
    assert form_boundary(media) == boundary
