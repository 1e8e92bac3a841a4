"""A request of 20 MB goes through without being parsed, and without more copies than one."""

from __future__ import annotations

import base64
import gc
import json
import tempfile
import tracemalloc
from typing import Any, BinaryIO, Final
from unittest.mock import ANY

import orjson
import pytest

from svir_proxy import client_request
from svir_proxy.response.json_text import dumps
from svir_proxy.server import upstream
from tests.server.support import COMPLETION, proxied, whole
from tests.server.transport.raw_server import Peer

pytestmark = pytest.mark.usefixtures("leaves_nothing")

SIZE: Final = 20 << 20
MEDIA: Final = base64.b64encode(bytes(range(256)) * (SIZE // 256 * 3 // 4)).decode()
PIECE: Final = 256 << 10
SMALL: Final = 1000
"""Bytes of JSON that are read and written of such a request."""
HEAD: Final = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


def chat(part: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": [part]}]}).encode()


IMAGE: Final = chat({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{MEDIA}"}})
BODIES: Final = {
    "an image": IMAGE,
    "an image, as PHP writes it": IMAGE.replace(b"/", rb"\/"),
    "sound": chat({"type": "input_audio", "input_audio": {"data": MEDIA, "format": "wav"}}),
    "a document": chat({"type": "file", "file": {"file_data": f"data:application/pdf;base64,{MEDIA}"}}),
}


async def keep_body(peer: Peer, file: BinaryIO) -> None:
    """Write the body of the next request to *file*, so that it is in nobody's memory."""
    head = await peer.head()
    left = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while left:
        data = await peer.read(min(left, PIECE))
        left -= len(data)
        file.write(data)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_it_is_neither_read_nor_copied(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    read, written = [], []

    class Counting:
        JSONDecodeError = orjson.JSONDecodeError

        @staticmethod
        def loads(text: bytes | bytearray) -> Any:
            read.append(len(text))
            return orjson.loads(text)

    def counting(value: Any) -> bytes:
        text = dumps(value)
        written.append(len(text))
        return text

    monkeypatch.setattr(client_request, "orjson", Counting)
    monkeypatch.setattr(upstream, "dumps", counting)
    with tempfile.TemporaryFile() as file:
        async with proxied() as proxy, proxy.client() as client:
            gc.collect()
            tracemalloc.start()
            try:
                before, _ = tracemalloc.get_traced_memory()
                client.write(HEAD % len(body))
                await client.pour(body, PIECE)
                peer = await proxy.server.accept()
                await keep_body(peer, file)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            await peer.send(whole(COMPLETION))
            assert (await client.status(), await client.body()) == (200, ANY)
        file.seek(0)
        assert json.load(file)["messages"] == json.loads(body)["messages"]
    assert max(read) < SMALL
    assert max(written) < SMALL
    assert peak - before < 1.5 * len(body), "more than one copy"
