"""PDF files as text, for backends that take no files; needs the extra ``pdf``.

Reading a PDF takes its time, so it is done in a thread, within limits; what comes out goes into the message as the
text file it then is.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
from typing import Any, Final

from svir_proxy.blobs import Blobs
from svir_proxy.client_request import Body
from svir_proxy.errors import ProxyError
from svir_proxy.request.context import with_values

_PDF: Final = "data:application/pdf;base64,"
_MAX_BYTES: Final = 50 << 20
_MAX_PAGES: Final = 500
_SECONDS: Final = 30.0


async def inline_documents(body: Body, blobs: Blobs | None = None) -> Body:
    """*body* with each inline PDF as a text file of the same name; the same object where there is none.

    *blobs* are the payloads that markers in it stand for. Raises ProxyError where a PDF cannot be read.
    """
    messages = []
    for message in body["messages"]:
        content = message.get("content")
        if isinstance(content, list) and any(_pdf(part) for part in content):
            message = {**message, "content": [await _as_text(part, blobs) for part in content]}  # noqa: PLW2901 - in its place
        messages.append(message)
    same = all(new is old for new, old in zip(messages, body["messages"], strict=True))
    return body if same else with_values(body, {"messages": messages})


def _pdf(part: Any) -> str | None:
    """The data URL of a PDF part."""
    file = part.get("file") if isinstance(part, dict) and part.get("type") == "file" else None
    data = file.get("file_data") if isinstance(file, dict) else None
    return data if isinstance(data, str) and data[: len(_PDF)].lower() == _PDF else None


async def _as_text(part: Any, blobs: Blobs | None) -> Any:
    data = _pdf(part)
    if data is None:
        return part
    name = str(part["file"].get("filename") or "file.pdf")
    try:
        async with asyncio.timeout(_SECONDS):
            text = await asyncio.to_thread(_read, data[len(_PDF) :], name, blobs)
    except TimeoutError:
        raise _refused(name, f"it was not read within {_SECONDS:g} s") from None
    url = f"data:text/plain;base64,{base64.b64encode(text.encode('utf-8', 'replace')).decode('ascii')}"
    return {**part, "file": {**part["file"], "file_data": url}}


def _read(payload: str, name: str, blobs: Blobs | None) -> str:
    try:
        import pypdf  # noqa: PLC0415 - an extra that few installations have
    except ImportError:
        raise _refused(
            name, "this proxy was installed without the extra 'pdf' (pip install 'svir-proxy[pdf]')"
        ) from None
    try:
        data = base64.b64decode(payload if blobs is None else blobs.whole(payload), validate=True)
    except (binascii.Error, ValueError):
        raise _refused(name, "its data is not base64") from None
    if len(data) > _MAX_BYTES:
        raise _refused(name, f"it is larger than {_MAX_BYTES} bytes")
    try:
        pages = pypdf.PdfReader(io.BytesIO(data)).pages
        is_long = len(pages) > _MAX_PAGES
        text = "" if is_long else "\n\n".join(page.extract_text() for page in pages)
    except Exception as exc:  # noqa: BLE001 - whatever a broken file makes the library raise
        raise _refused(name, f"it cannot be read ({type(exc).__name__})") from None
    if is_long:
        raise _refused(name, f"it has more than {_MAX_PAGES} pages")
    if not text.strip():
        raise _refused(name, "it holds no text (a scan?)")
    return text


def _refused(name: str, why: str) -> ProxyError:
    return ProxyError(
        "file_not_supported",
        f"The PDF {name[:100]!r} cannot go as text, and the model takes no files: {why}.",
        param="messages",
    )
