"""One request to a server and what came back, as plain values: what the questions make and the rules judge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

EXCERPT: Final = 240
"""Characters of an answer that are shown as evidence."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a server is asked.

    Attributes:
        path: Below the server's root, such as ``/v1/models``.
        body: A JSON value; None: the request is a GET.
        raw: The bytes of the body, where they are not those of *body*.
        method: Where it is neither POST with a body nor GET without.
        key: The server's key, or one that is wrong.
        leave: Close the connection once this text was in the answer.
    """

    path: str
    body: Any = None
    raw: bytes | None = None
    method: str = ""
    key: Literal["right", "wrong"] = "right"
    leave: bytes | None = None

    @property
    def content(self) -> bytes | None:
        """The bytes of the body."""
        if self.raw is not None or self.body is None:
            return self.raw
        return json.dumps(self.body).encode()

    @property
    def verb(self) -> str:
        """The HTTP method."""
        return self.method or ("GET" if self.content is None else "POST")

    @property
    def streamed(self) -> bool:
        """Whether it asks for a stream."""
        return isinstance(self.body, dict) and self.body.get("stream") is True


@dataclass(frozen=True, slots=True)
class Exchange:
    """What came of a request.

    Attributes:
        request: What was asked.
        status: The HTTP status; None: no answer came, and *failure* says why.
        headers: By lower-case name.
        body: The HTTP body, without its framing and compression.
        clean: The body ended properly.
        failure: Why there is no answer, or no end of it, in words.
        late: That was because it took too long, or nobody was there: it proves nothing.
        seconds: From the request to the end.
        http_version: As the status line has it, such as ``HTTP/1.1``.
    """

    request: Request
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    clean: bool = True
    failure: str = ""
    late: bool = False
    http_version: str = "HTTP/1.1"
    seconds: float = 0

    @property
    def ok(self) -> bool:
        """Whether the server did what it was asked for."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def refused(self) -> bool:
        """Whether it answered with an HTTP error."""
        return self.status is not None and self.status >= 400


def excerpt(data: bytes | str, around: str = "") -> str:
    """A piece of *data* on one line, cut; the piece with *around* in it, where it has it."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    text = " ".join(text.split())
    at = max(text.find(around) - EXCERPT // 2, 0) if around else 0
    piece = text[at : at + EXCERPT]
    return ("…" if at else "") + piece + ("…" if at + EXCERPT < len(text) else "")
