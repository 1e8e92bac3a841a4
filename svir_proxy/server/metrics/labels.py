"""The values of labels: few, whatever clients send. What they make up is ``other``."""

from __future__ import annotations

import re
from typing import Final

from svir_proxy.request.rewrites.optional_fields import is_foreign

OTHER: Final = "other"

_NAMED: Final = (
    *("chat/completions", "completions", "embeddings", "rerank", "moderations", "responses"),
    *("audio/speech", "audio/transcriptions", "audio/translations"),
    *("images/generations", "images/edits", "images/variations"),
    *("models", "healthz", "readyz", "metrics"),
)
ENDPOINTS: Final = {f"{prefix}/{name}": name for name in _NAMED for prefix in ("", "/v1")}
"""The value for each path that is usual."""
_PREFIX: Final = re.compile(r"/+(?:v1/+)?")
_WITH_MORE: Final = frozenset({"audio", "images", "models"})
"""What may stand before anything."""

_FIELDS: Final = frozenset({"drop", "retry.drop", "ignored", "add"})
"""Notes whose text is a field of the request, and so may be a client's own."""
_WITHOUT_TEXT: Final = frozenset({"nulls", "failover"})


def endpoint_of(path: str) -> str:
    """What a request's *path* asks for."""
    if (found := ENDPOINTS.get(path)) is not None:
        return found
    below = _PREFIX.sub("", path, count=1).rstrip("/")
    if below in _NAMED:
        return below
    first = below.partition("/")[0]
    return first if first in _WITH_MORE else OTHER


def note_of(note: str) -> str:
    """The kind of a *note* of ``x-svir-rewrites``."""
    name, is_more, text = note.partition("=")
    if name in _WITHOUT_TEXT or not is_more:
        return name
    if name in _FIELDS:
        return f"{name}={OTHER if is_foreign(text) else text}"
    return f"{name}={text.partition(':')[0]}"


def printable(text: str) -> str:
    """*text* without lone surrogates, which no UTF-8 can say."""
    return text.encode("utf-8", "replace").decode()
