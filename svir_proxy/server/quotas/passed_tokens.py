"""The tokens of an answer that passes as it is: what is reported in its first or last bytes, else its events.

Servers put ``usage`` at the end of what they say, or, before embeddings, at the beginning. Those bytes are kept, no
more, and looked into when the answer is over. Within a text of the answer a quote has a backslash before it, so that
no text can be taken for a report.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from svir_proxy.response.json_text import safe_integer
from svir_proxy.response.usage import read_usage
from svir_proxy.server.quotas.tokens import Meter

_KEPT: Final = 8 * 1024
"""Bytes of the beginning, and of the end."""
_USAGE: Final = re.compile(rb'"usage"\s*:\s*(?=\{)')
_EVENT: Final = b"data:"
_JSON: Final = json.JSONDecoder()


class PassedMeter(Meter):
    """Counts one request beside chat. *size*: bytes of its text."""

    def __init__(self, size: int = 0) -> None:
        super().__init__(size)
        self._first = bytearray()
        self._last = bytearray()

    def feed(self, data: bytes) -> None:
        """Count bytes of the answer."""
        if (room := _KEPT - len(self._first)) > 0:
            self._first += data[:room]
        self._last += data[-_KEPT:]
        del self._last[:-_KEPT]
        self.add(data.count(_EVENT))

    def tokens(self, usage: dict[str, Any] | None, *, failed: bool) -> int:
        """As `Meter.tokens`."""
        return super().tokens(usage or _reported(self._last) or _reported(self._first), failed=failed)


def _reported(data: bytearray) -> dict[str, Any] | None:
    """The last whole report in *data*."""
    for found in reversed(list(_USAGE.finditer(data))):
        try:
            value, _ = _JSON.raw_decode(data[found.end() :].decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        total = safe_integer(value.get("total_tokens"))
        if (usage := read_usage(value)) is not None:
            return usage
        if total:
            return {"total_tokens": total}  # rerankers count one way only
    return None
