"""The bytes of an upstream as they may be seen, read by read.

Shown are whole lines only: half of a line could be half of a key that must not be seen, or of a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from svir_proxy.response.json_text import dumps, loads
from svir_proxy.server.inspector.veil import Veil, counted

_LONGEST: Final = 4000
"""Characters of one read that are shown."""
_LARGEST: Final = 256 * 1024
"""Bytes of a line, or of a document, that are kept until it is whole."""
_DOCUMENT: Final = (b"{", b"[", b"<")
"""What a body begins with that is no stream of events."""
_PROGRESS: Final = re.compile(r": ?[a-z -]{0,20}[0-9/ ]{0,20}")
"""A comment that says how far a server has read, or nothing but that it lives."""
_HARMLESS: Final = re.compile(r"event: ?[a-z._]{1,40}|(?:id|retry): ?[0-9]{1,20}|data: ?\[DONE\]")

Scrub = Callable[[str], str]
"""Takes keys out of a text."""


class RawText:
    """Shows one body. Feed it every read, then say that the body has ended."""

    def __init__(self, veil: Veil) -> None:
        self._veil = veil
        self._rest = b""  # an unfinished line, or a document
        self._is_document: bool | None = None  # None: nothing came yet

    def feed(self, data: bytes, scrub: Scrub) -> str:
        """What of *data* may be seen, and of what was kept of the reads before."""
        if self._is_document is None and (begun := data.lstrip()):
            self._is_document = begun[:1] in _DOCUMENT
        if self._is_document:
            self._keep(self._rest + data)
            return f"«{counted(len(data), 'byte')} of a document»"
        *lines, rest = (self._rest + data).replace(b"\r\n", b"\n").split(b"\n")
        self._keep(rest)
        shown = [self._line(line, scrub) for line in lines if line]
        if rest and not shown:
            shown = [f"«{counted(len(data), 'byte')} of a line»"]
        return _cut("\n".join(shown))

    def end(self, scrub: Scrub) -> str:
        """What is left."""
        rest, self._rest = self._rest, b""
        if not rest:
            return ""
        return _cut(scrub(self._json(rest)) if self._is_document else self._line(rest, scrub))

    def _keep(self, data: bytes) -> None:
        self._rest = data if len(data) <= _LARGEST else data[: _LARGEST + 1]

    def _line(self, line: bytes, scrub: Scrub) -> str:
        text = line[: _LARGEST + 1].decode("utf-8", "replace")
        if self._veil.prompts or _HARMLESS.fullmatch(text) or _PROGRESS.fullmatch(text):
            return scrub(text)
        if line.startswith(b":"):
            return f": «{counted(len(line) - 1, 'byte')}»"
        name, colon, value = line.partition(b":")
        if colon and name in (b"data", b"event", b"id", b"retry"):
            value = value.removeprefix(b" ")
            said = scrub(self._json(value)) if name == b"data" else f"«{counted(len(value), 'byte')}»"
            return f"{name.decode()}: {said}"
        return f"«{counted(len(line), 'byte')}»"

    def _json(self, data: bytes) -> str:
        if self._veil.prompts:
            return data.decode("utf-8", "replace")
        if len(data) > _LARGEST:
            return f"«more than {counted(_LARGEST, 'byte')}»"
        try:
            return dumps(self._veil.value(loads(data))).decode()
        except (ValueError, RecursionError):
            return f"«{counted(len(data), 'byte')}, no JSON»"


def shown_body(data: bytes, veil: Veil, scrub: Scrub) -> str:
    """A whole body."""
    raw = RawText(veil)
    if data.lstrip()[:1] in _DOCUMENT:
        raw.feed(data, scrub)
        return raw.end(scrub)
    return raw.feed(data + b"\n", scrub)  # what has no end here is whole all the same


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({counted(len(text) - _LONGEST, 'more character')})"
