"""What a server sent, as far as it may be seen: to the byte, or its structure."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.server.inspector.raw import RawText, shown_body
from svir_proxy.server.inspector.veil import Veil

HIDDEN: Final = Veil(prompts=False)
SHOWN: Final = Veil(prompts=True)

LINES: Final = {
    'data: {"id":"c","choices":[{"delta":{"content":"secret"}}]}': 'data: {"id":"c","choices":[{"delta":{"content":"«6 characters»"}}]}',
    "data: [DONE]": "data: [DONE]",
    "data: secret words": "data: «12 bytes, no JSON»",
    "data:": "data: «0 bytes, no JSON»",
    ": keepalive 12/400": ": keepalive 12/400",
    ": ping": ": ping",
    ": secret, 1 word": ": «15 bytes»",
    "event: error": "event: error",
    "event: Secret Words": "event: «12 bytes»",
    "id: 17": "id: 17",
    "id: secret": "id: «6 bytes»",
    "retry: 100": "retry: 100",
    "secret": "«6 bytes»",
    "secret: secret": "«14 bytes»",
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_a_line(line: str) -> None:
    data = f": ping\n{line}\n\n".encode()
    assert RawText(HIDDEN).feed(data, str) == f": ping\n{LINES[line]}"
    assert RawText(SHOWN).feed(data, str) == f": ping\n{line}"


@given(st.lists(st.integers(0, 400)))
def test_no_cut_shows_more(cuts: list[int]) -> None:
    body = "".join(f"{line}\r\n" for line in LINES).encode()
    raw = RawText(HIDDEN)
    at = 0
    seen = []
    for cut in [*sorted(cuts), len(body)]:
        seen.append(raw.feed(body[at:cut], str))
        at = max(at, cut)
    seen.append(raw.end(str))
    text = "\n".join(seen)
    assert "secret" not in text.lower()
    assert [
        line for line in text.splitlines() if not line.startswith("«") or "byte" not in line or "of a line" not in line
    ]


def test_half_a_line_waits_for_the_other() -> None:
    raw = RawText(SHOWN)
    assert raw.feed(b'data: {"a', str) == "«9 bytes of a line»"
    assert raw.feed(b'":1}\n\ndata: ', str) == 'data: {"a":1}'
    assert raw.feed(b"x", str) == "«1 byte of a line»"
    assert raw.end(str) == "data: x"
    assert raw.end(str) == ""


def test_a_document_is_shown_when_it_is_whole() -> None:
    for veil, shown in ((HIDDEN, '{"content":"«6 characters»"}'), (SHOWN, ' {"content":"secret"}')):
        raw = RawText(veil)
        assert raw.feed(b" ", str) == "«1 byte of a line»"
        assert raw.feed(b'{"content":', str) == "«11 bytes of a document»"
        assert raw.feed(b'"secret"}', str) == "«9 bytes of a document»"
        assert raw.end(str) == shown


BODIES: Final = {
    b'{"error":{"message":"secret","code":"bad"}}': '{"error":{"message":"«6 characters»","code":"bad"}}',
    b"secret": "«6 bytes»",
    b"<html>secret</html>": "«19 bytes, no JSON»",
    b"": "",
    b"data: 1\nsecret": 'data: "«number»"\n«6 bytes»',
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_a_whole_body(body: bytes) -> None:
    assert shown_body(body, HIDDEN, str) == BODIES[body]
    assert shown_body(body, SHOWN, str) == body.decode()


@pytest.mark.parametrize("veil", [HIDDEN, SHOWN], ids=["hidden", "shown"])
@pytest.mark.parametrize("begin", [b'data: {"a":"', b'{"a":"'], ids=["line", "document"])
def test_what_never_ends_takes_no_more_memory(veil: Veil, begin: bytes) -> None:
    raw = RawText(veil)
    raw.feed(begin, str)
    for _ in range(100):
        assert len(raw.feed(b"x" * 65536, str)) < 100
    assert len(raw._rest) < 300_000
    assert len(raw.end(str)) < 5000


@pytest.mark.parametrize("veil", [HIDDEN, SHOWN], ids=["hidden", "shown"])
def test_no_key_is_shown_however_it_is_cut(veil: Veil) -> None:
    def scrub(text: str) -> str:
        return text.replace("sk-key", "[key]")

    body = b'data: {"id":"sk-key"}\n\n'
    for cut in range(len(body)):
        raw = RawText(veil)
        seen = raw.feed(body[:cut], scrub) + raw.feed(body[cut:], scrub) + raw.end(scrub)
        assert 'data: {"id":"[key]"}' in seen
        assert "sk-" not in seen
