"""Takes out of a recording what belongs to the machine and the person it was made with: keys, names, places.

What is replaced stays what it was to a parser: no quote, no backslash and no line end comes or goes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

_KEPT_HEADERS: Final = (
    "content-type", "server", "cache-control", "x-accel-buffering", "retry-after", "retry-after-ms",
    "transfer-encoding", "keep-alive", "connection", "allow",
)  # fmt: skip
"""Headers that a case is about. All others may hold an account, a region, a session."""

_START: Final = rb"(?:(?<![\w.+\\-])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4}))"
"""Where a word begins, in text and in JSON, whose escapes end in letters."""
_SLASH: Final = rb"(?:\\?/)"
_NAME: Final = rb"[^\s\"'\\/<>|:*?,;()\[\]{}]+"
_ROOTS: Final = rb"(?:home|Users|root|tmp|var|opt|srv|mnt|media|data|workspace|work|private|Volumes)"
_PATH: Final = re.compile(
    _START + b"(?<!/)" + _SLASH + _ROOTS + b"(?:" + _SLASH + _NAME + b")*" + _SLASH + b"(" + _NAME + b")"
)
_WINDOWS: Final = re.compile(_START + rb"[A-Za-z]:(?:\\\\|\\|/)(?:" + _NAME + rb"(?:\\\\|\\|/))+(" + _NAME + b")")
_KEYS: Final = re.compile(
    _START
    + rb"(?:(?:sk|pk|rk|gsk|xai|hf|ghp|csk|nvapi|org|proj|user|sess|req|acct)[-_][A-Za-z0-9_-]{12,}|AIza[\w-]{20,})"
    rb"|(?<=Bearer )[\w.~+/=-]{6,}"
)
_MAIL: Final = re.compile(_START + rb"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")

_SECRET: Final = b"SECRET"
_HOST: Final = b"server.example"
_USER: Final = b"somebody"
_COMMON: Final = ("root", "user", "admin", "test", "localhost")
"""Names that say nothing, and are words."""


class Cleaner:
    """Replaces *secrets* wherever they are, *hosts* and *users* where they are words, and what looks like either."""

    def __init__(self, secrets: Sequence[str] = (), hosts: Sequence[str] = (), users: Sequence[str] = ()) -> None:
        self._secrets = [secret.encode() for secret in secrets if secret]
        self._words = [(_word(host), _HOST) for host in hosts if _tells(host)]
        self._words += [(_word(user), _USER) for user in users if _tells(user)]

    def __call__(self, data: bytes) -> bytes:
        """*data* without them."""
        for secret in self._secrets:
            data = data.replace(secret, _SECRET)
        data = _PATH.sub(rb"/models/\1", data)
        data = _WINDOWS.sub(rb"/models/\1", data)
        data = _KEYS.sub(_SECRET, data)
        data = _MAIL.sub(_USER + b"@server.example", data)
        for word, instead in self._words:
            data = word.sub(instead, data)
        return data

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Those headers that a case may have, clean."""
        return {name: self.text(headers[name]) for name in _KEPT_HEADERS if name in headers}

    def text(self, text: str) -> str:
        """The same for text."""
        return self(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


def _tells(word: str) -> bool:
    return len(word) > 3 and word.lower() not in _COMMON and not word.startswith("127.")


def _word(word: str) -> re.Pattern[bytes]:
    return re.compile(_START + re.escape(word.encode()) + rb"(?![\w-])", re.IGNORECASE)
