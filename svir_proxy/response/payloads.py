"""Several payloads that a server put into one event, told apart.

Glued with and without a line end, with ``data:`` or a comment between them, with ``[DONE]`` behind them. Cutting at
what looks like a seam would cut texts too (``a[0][1]``), so each payload is read to its end.
"""

from __future__ import annotations

import re
from typing import Any, Final

from svir_proxy.bulk import has_too_many_values
from svir_proxy.response.json_text import load_at

DONE: Final = "[DONE]"
_SEAM: Final = re.compile(r"(?:(?>\s++|data:|:[^\n]*+))*+")
"""Possessive: a seam of megabytes would otherwise be remembered step by step, for a way back that is never taken."""
_MOST: Final = 20_000
"""Payloads of one event: more than any answer has chunks."""


def read_payloads(data: bytes) -> list[Any]:
    """The JSON values in *data* in order, `DONE` itself where it stands; raises ValueError where there is more."""
    if has_too_many_values(data):
        raise ValueError("an event of too many values")
    text = data.decode("utf-8", "replace")
    payloads: list[Any] = []
    at = 0
    while (seam := _SEAM.match(text, at)) and (at := seam.end()) < len(text):
        if text.startswith(DONE, at):
            payload, at = DONE, at + len(DONE)
        else:
            payload, at = load_at(text, at)
        payloads.append(payload)
        if len(payloads) > _MOST:
            raise ValueError("an event of too many payloads")
    return payloads
