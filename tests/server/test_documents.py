"""A PDF goes as text where the model takes no files, or is refused with the reason."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import httpx
import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.server.documents import inline_documents
from tests.server.support import ANSWER, CHAT, serving, settings


def pdf(text: str) -> bytes:
    """The smallest PDF that says *text*."""
    stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R /Resources << /Font << /F1 %b >> >> >>"
        % b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream),
    ]
    body, offsets = b"%PDF-1.4\n", []
    for number, item in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%b\nendobj\n" % (number, item)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    head = b"xref\n0 5\n0000000000 65535 f \n" + table
    return body + head + b"trailer << /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % len(body)


def part(data: bytes, media: str = "application/pdf") -> dict[str, Any]:
    url = f"data:{media};base64,{base64.b64encode(data).decode()}"
    return {"type": "file", "file": {"filename": "a.pdf", "file_data": url}}


def asking(*parts: Any) -> dict[str, Any]:
    return CHAT | {"messages": [{"role": "user", "content": [{"type": "text", "text": "Read."}, *parts]}]}


@pytest.mark.parametrize("text", ["Locker nine", "Locker nine. " * 2000 + "End"], ids=["small", "large"])
@pytest.mark.parametrize("slash", [b"/", rb"\/"], ids=["as usual", "as PHP writes it"])
async def test_its_text_goes_into_the_message(text: str, slash: bytes) -> None:
    asked: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=ANSWER)

    async with serving(settings(profile="llama-cpp"), answer) as client:
        body = json.dumps(asking(part(pdf(text)))).encode().replace(b"/", slash)
        headers = {"content-type": "application/json"}
        response = await client.post("/v1/chat/completions", content=body, headers=headers)
    assert response.status_code == 200
    (_, file) = asked[0]["messages"][0]["content"]
    assert file["text"] == f'<file name="a.pdf">\n{text}\n</file>'
    assert "file=text" in response.headers["x-svir-rewrites"]


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (part(b"no PDF"), "cannot be read"),
        (part(pdf(" ")), "holds no text"),
        ({"type": "file", "file": {"file_data": "data:application/pdf;base64,%%%"}}, "not base64"),
    ],
)
async def test_what_cannot_be_read_is_refused_with_the_reason(file: dict[str, Any], why: str) -> None:
    with pytest.raises(ProxyError, match=why) as caught:
        await inline_documents(asking(file))
    assert caught.value.kind == "file_not_supported"


async def test_without_the_extra_the_reason_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(ProxyError, match=r"svir-proxy\[pdf\]"):
        await inline_documents(asking(part(pdf("x"))))


async def test_other_bodies_are_shared() -> None:
    body = asking(part(b"text", "text/plain"))
    assert await inline_documents(body) is body
