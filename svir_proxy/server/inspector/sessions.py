"""Who has shown the inspector's key: a cookie that says so, which only this proxy can make.

Nothing is kept of it: any worker, and any replica with the same key, knows the cookie for what it is, and another key
ends them all. Where the configuration has no more than the hash of the key, who can read that must not be able to make
a cookie: then only the process that was shown the key knows its own.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

COOKIE: Final = "svir_inspector"
SECONDS: Final = 12 * 3600
"""How long a login lasts."""
_FAILURES: Final = 10
"""Wrong keys within `_WINDOW` after which none is looked at."""
_WINDOW: Final = 60.0
_OF_THIS_PROCESS: Final = secrets.token_bytes(32)


class Sessions:
    """The logins with the key of this *digest* (SHA-256, 32 bytes); *key* is itself, where it is known.

    Times are Unix times in seconds.
    """

    def __init__(self, digest: bytes, key: str | None) -> None:
        self._digest = digest
        self._secret = _OF_THIS_PROCESS + digest if key is None else key.encode()
        self._failures: list[float] = []

    def log_in(self, shown: str, now: float) -> str | None:
        """The cookie's value for who has *shown* the key; None where it is another one."""
        if not hmac.compare_digest(hashlib.sha256(shown.encode()).digest(), self._digest):
            self._failures.append(now)
            return None
        content = f"{int(now) + SECONDS}.{secrets.token_hex(8)}"
        return f"{content}.{self._signature(content)}"

    def wait(self, now: float) -> float:
        """For how many seconds no key is looked at, because so many were wrong."""
        self._failures = [at for at in self._failures if at > now - _WINDOW]
        return self._failures[-_FAILURES] + _WINDOW - now if len(self._failures) >= _FAILURES else 0.0

    def knows(self, cookies: str, now: float) -> bool:
        """Whether *cookies*, a Cookie header, has a login that still counts."""
        # By hand: other programs on this machine set cookies too, of this name, or such that a parser stops at them.
        named = (part.strip().partition("=") for part in cookies.split(";"))
        return any(name == COOKIE and self._counts(value, now) for name, _, value in named)

    def _counts(self, value: str, now: float) -> bool:
        content, _, signature = value.rpartition(".")
        until = content.partition(".")[0]
        if not hmac.compare_digest(self._signature(content).encode(), signature.encode()):
            return False
        return until.isdigit() and now < int(until)

    def _signature(self, content: str) -> str:
        return hmac.digest(self._secret, b"svir-proxy inspector " + content.encode(), "sha256").hex()
