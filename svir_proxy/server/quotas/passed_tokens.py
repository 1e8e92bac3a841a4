"""The tokens of an answer that passes as it is: what is reported in its first or last bytes, else its events.

Servers put ``usage`` at the end of what they say, or, before embeddings, at the beginning. Those bytes are kept, no
more, and looked into when the answer is over. Within a text of the answer a quote has a backslash before it, so that
no text can be taken for a report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from svir_proxy.response.json_text import safe_integer
from svir_proxy.response.usage import read_usage
from svir_proxy.server.quotas.tokens import Meter, of_text

_KEPT: Final = 64 * 1024
"""Bytes of the beginning, and of the end: a response repeats the client's metadata behind its report, up to 55 KiB."""
_USAGE: Final = re.compile(rb'"usage"\s*:\s*(?=\{)')
_EVENT: Final = b"data:"
_JSON: Final = json.JSONDecoder()


class PassedMeter(Meter):
    """Counts one request beside chat. *came*: tells how many bytes of its text have come; None: it has none.

    It is asked in the end: a body that names no length goes on while it comes.
    """

    def __init__(self, came: Callable[[], int] | None = None) -> None:
        super().__init__()
        self._came = came
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
        if self._came is not None:
            self.prompt = of_text(self._came())
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
