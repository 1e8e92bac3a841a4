"""A client's body on its way: what is held of it, what is changed in it, and who waits for whom."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

import pytest
from starlette.types import Message

from svir_proxy.errors import ProxyError
from svir_proxy.request.model_field import ModelInJson
from svir_proxy.server.http import ClientGone
from svir_proxy.server.upload import Upload
from tests.server.transport.raw_server import soon, until

MIB: Final = 2**20
GONE: Final[Message] = {"type": "http.disconnect"}
START: Final = b'{"model":"m","x":"'
END: Final = b'"}'


class Source:
    """What the client sends, in pieces; counts how often it was asked."""

    def __init__(self, *pieces: bytes | Message, ends: bool = True) -> None:
        self._pieces = deque(pieces)
        self._ends = ends
        self.asked = 0
        self.news = asyncio.Event()

    async def receive(self) -> Message:
        self.asked += 1
        if not self._pieces:
            await self.news.wait()
            return GONE
        piece = self._pieces.popleft()
        if not isinstance(piece, bytes):
            return piece
        return {"type": "http.request", "body": piece, "more_body": bool(self._pieces) or not self._ends}


def upload(source: Source, declared: int | None = None, limit: int = 100 * MIB) -> Upload:
    return Upload(source.receive, ModelInJson(), declared, limit)


async def sent(up: Upload) -> bytes:
    """All that goes out."""
    content = up.content
    return content if isinstance(content, bytes) else b"".join([piece async for piece in content])


@pytest.mark.parametrize(
    ("pieces", "asked", "whole"),
    [
        ((START + END,), 1, True),
        ((START, b"x" * 1000, END), 3, True),
        ((START, b"x" * 70_000, b"y" * 70_000, END), 2, False),
        ((START + b"x" * 70_000, END), 1, False),
        # a model at the end, as openai-python writes embeddings
        ((b'{"x":"', b"x" * MIB, b"x" * MIB, b'","model":"m"', b"}"), 4, False),
        ((b'{"x":"', b"x" * MIB, b'","model":"m"}'), 3, True),
        ((b'{"x":"', b"x" * 31 * MIB, b'"}'), 3, True),
    ],
)
@pytest.mark.parametrize("model", ["m", "org/longer", ""])
async def test_how_much_is_read_before_a_server_is_asked(
    pieces: tuple[bytes, ...], asked: int, *, whole: bool, model: str
) -> None:
    source, body = Source(*pieces), b"".join(pieces)
    up = upload(source, len(body))
    await up.look()
    assert (source.asked, up.is_whole) == (asked, whole)
    assert up.model == ("m" if b"model" in body else "")
    assert up.put(model) == (model not in ("", "m") and b"model" in body)
    goes = body.replace(b'"model":"m"', b'"model":"%b"' % (model or "m").encode())
    assert up.length == len(goes)
    assert await sent(up) == goes


async def test_a_body_without_a_length_goes_on_without_one() -> None:
    source = Source(START, b"x" * MIB, END)
    up = upload(source)
    await up.look()
    up.put("n")
    assert up.length is None
    assert await sent(up) == b'{"model":"n","x":"' + b"x" * MIB + END


async def test_a_piece_is_asked_for_when_the_one_before_is_gone() -> None:
    pieces = [b"x" * MIB] * 50
    source = Source(START, *pieces, END)
    up = upload(source)
    await up.look()
    up.put("m")
    first = source.asked
    async for _ in up:
        assert source.asked - first <= 1
        first = source.asked
    assert source.asked == 52


@pytest.mark.parametrize(
    ("source", "declared", "kind", "words"),
    [
        (Source(START), 11, "request_too_large", "larger than 10 bytes"),
        (Source(START, END), None, "request_too_large", "larger than 10 bytes"),
        (Source(b"[1"), None, "invalid_json", "must be a JSON object"),
        (Source(b'{"x":'), None, "invalid_json", "breaks off"),
    ],
)
async def test_what_is_refused_at_once(source: Source, declared: int | None, *, kind: str, words: str) -> None:
    with pytest.raises(ProxyError, match=words) as caught:
        await upload(source, declared, 10).look()
    assert caught.value.kind == kind


async def test_the_model_has_to_come_within_what_is_held() -> None:
    source = Source(b'{"x":"', *[b"x" * MIB] * 40, b'","model":"m"}')
    with pytest.raises(ProxyError, match="The first 32 MiB of the request have no 'model'") as caught:
        await upload(source).look()
    assert (caught.value.kind, caught.value.param, source.asked) == ("invalid_request", "model", 33)


@pytest.mark.parametrize(
    ("rest", "raised"),
    [
        ((b'","model":"n"}',), ProxyError),
        ((b"x" * 2 * MIB,), ProxyError),
        ((b"\\",), ProxyError),
        ((GONE,), ClientGone),
    ],
)
async def test_what_comes_later_is_judged_when_it_comes(rest: Any, raised: type[Exception]) -> None:
    up = upload(Source(START + b"x" * MIB, *rest), None, 2 * MIB)
    await up.look()
    up.put("m")
    with pytest.raises(raised):
        await sent(up)


async def test_a_client_that_leaves_before_anything_is_known() -> None:
    with pytest.raises(ClientGone):
        await upload(Source(START, GONE)).look()


@pytest.mark.parametrize("how", ["whole", "read to its end", "given up"])
async def test_who_waits_for_the_client_to_leave_hears_nothing_before_the_upload_is_over(how: str) -> None:
    source = Source(START + END) if how == "whole" else Source(START + b"x" * MIB, END)
    up = upload(source)
    await up.look()
    waiting = asyncio.ensure_future(up.after())
    up.put("m")
    if how != "whole":
        await asyncio.sleep(0)
        assert source.asked == 1
        await (sent(up) if how == "read to its end" else up.aclose())
    if how == "given up":  # what still comes of the body is no news
        assert (await soon(waiting))["type"] == "http.request"
        waiting = asyncio.ensure_future(up.after())
    await until(lambda: source.asked == (2 if how == "whole" else 3))
    assert not waiting.done()
    source.news.set()
    assert await soon(waiting) == GONE
