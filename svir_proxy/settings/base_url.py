"""People write a server's URL with and without ``/v1``, with and without a slash at the end: one form from here on."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

_ENDPOINTS: Final = re.compile(r"/(chat/completions|completions|embeddings|models|responses)$")


def normalize_base_url(url: str, *, key_goes: str = "under api_key") -> str:
    """Scheme, host, port and prefix of *url*, without ``/v1`` and without a slash at the end.

    Raises ValueError, which never repeats the URL: it may carry a password, and that *key_goes* elsewhere.
    """
    url = url.strip()
    if any(char <= " " or char == "\x7f" for char in url):
        raise ValueError("holds a space or a control character; leave it out")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("is no URL; write http://HOST:PORT with a port up to 65535") from None
    if parts.scheme.lower() not in ("http", "https") or not url[len(parts.scheme) :].startswith("://"):
        raise ValueError("does not start with http:// or https://; write http://HOST:PORT")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"carries a user name or a password, which would end in logs; put the key {key_goes}")
    if parts.query or "?" in url:
        raise ValueError("carries a query; put it under overrides.endpoint.query")
    if "#" in url:
        raise ValueError("carries a fragment, which no server sees; leave out the # and what follows")
    if not host:
        raise ValueError("names no host; write http://HOST:PORT")
    path = parts.path.rstrip("/")
    if endpoint := _ENDPOINTS.search(path):
        raise ValueError(f"names an endpoint, not a server; leave out {endpoint[0]}")
    path = path.removesuffix("/v1").rstrip("/")
    if ":" in host:
        host = f"[{host}]"
    return f"{parts.scheme.lower()}://{host}{'' if port is None else f':{port}'}{path}"
