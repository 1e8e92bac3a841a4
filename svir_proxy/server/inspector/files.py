"""The files of the page, as the package ships them, and the headers that keep a browser from anything else."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

TYPES: Final = {
    "inspector.html": "text/html; charset=utf-8",
    "login.html": "text/html; charset=utf-8",
    "inspector.css": "text/css; charset=utf-8",
    "inspector.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""What there is, with its content type. Nothing else of the package can be asked for."""
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Scripts and styles are files of the proxy's own; text can become neither, not even by a mistake in the script."""
GUARDS: Final = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
"""Headers of every answer of the inspector."""


class File(NamedTuple):
    """One file."""

    content: bytes
    media: bytes
    tag: bytes
    """Its ETag: a new release has other files under the same names."""


@cache
def load(name: str) -> File:
    """The file *name*, one of `TYPES`; read once."""
    content = files(__package__).joinpath("static", name).read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return File(content, TYPES[name].encode(), tag.encode())
