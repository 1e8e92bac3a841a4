"""A recorded exchange as a case of the corpus (``tests/cases/README.md`` has the format), and what it expects.

What it expects is what the proxy made of it: a beginning for somebody who looks at it, and marked as that.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from svir_proxy.conform import dialect
from svir_proxy.conform.cases import Case
from svir_proxy.conform.exchange import Exchange
from svir_proxy.conform.judge import Seen, asks_for_usage
from svir_proxy.record.clean import Cleaner

LOOK: Final = "LOOK AT expect: it is what the proxy made of this, which may be wrong. Then take this sentence out."
MODEL: Final = "m"
_WORDS: Final = 60
"""Characters of a server's message that a client has to see again."""


@dataclass(frozen=True, slots=True)
class Server:
    """What answered, as far as known; the *name* chooses the profile."""

    name: str
    version: str | None = None
    model: str | None = None
    flags: tuple[str, ...] = ()


def case_of(name: str, exchange: Exchange, server: Server, clean: Cleaner) -> Case:
    """The case of an exchange, with nothing expected yet."""
    response: dict[str, Any] = {"status": exchange.status, "headers": clean.headers(exchange.headers)}
    if exchange.status is None:
        response["closed_without_response"] = True
    if exchange.http_version == "HTTP/1.0":
        response["http_version"] = "HTTP/1.0"
    if not exchange.clean:
        response["cut"] = True
    request = json.loads(clean(json.dumps(exchange.request.body).encode()))
    meta = {
        "server": server.name,
        "version": server.version,
        "model": clean.text(server.model) if server.model else None,
        "flags": [clean.text(flag) for flag in server.flags],
        "source": "recorded",
        "ref": None,
        "shows": f"recorded as {name}: say in one sentence why this case is worth keeping",
        "request": {**request, "model": MODEL},
        "response": response,
        "expect": {},
        "notes": LOOK,
    }
    return Case(name, meta, clean(exchange.body))


def with_expectation(case: Case, seen: Seen) -> Case:
    """The case, expecting the answer that was *seen*."""
    return Case(case.key, {**case.meta, "expect": expectation_of(case, seen)}, case.body)


def expectation_of(case: Case, seen: Seen) -> dict[str, Any]:
    """The answer that was *seen*, as a case says it."""
    streamed = case.streamed and seen.status < 400
    said = dialect.summarize(seen.body) if streamed else dialect.summarize_completion(seen.body)
    expect: dict[str, Any] = {"outcome": said["outcome"], "http_status": seen.status}
    if said["outcome"] == "error":
        expect["error"] = _error(said["error"], case.body)
        if not said["partial"]:
            return {**expect, "partial": False}
    told = not case.streamed or asks_for_usage(case.request)
    return {
        **expect,
        "content": said["content"],
        "reasoning": said["reasoning"],
        "refusal": said["refusal"],
        "tool_calls": said["tool_calls"],
        "finish_reason": said["finish_reason"],
        "usage": said["usage"] if told else None,
        "partial": said["partial"],
    }


def _error(error: Any, body: bytes) -> dict[str, Any]:
    """Type and code, and the beginning of the server's own words where they came through."""
    error = error if isinstance(error, dict) else {}
    message = str(error.get("message") or "")
    words = message[:_WORDS]
    while words and json.dumps(words, ensure_ascii=False)[1:-1].encode() not in body:
        words = words[: len(words) // 2]
    contains = words if len(words) > 7 else None
    return {"type": error.get("type"), "code": error.get("code"), "message_contains": contains}


def write(case: Case, folder: Path) -> list[Path]:
    """Writes the case below *folder*; OSError where it cannot, FileExistsError where it is there already."""
    described, body = refuse_to_overwrite(folder, case.key)
    described.parent.mkdir(parents=True, exist_ok=True)
    described.write_text(json.dumps(case.meta, indent=1, ensure_ascii=False) + "\n", "utf-8")
    if case.body:
        body.write_bytes(case.body)
    return [described, body] if case.body else [described]


def refuse_to_overwrite(folder: Path, key: str) -> tuple[Path, Path]:
    """The two files of a case below *folder*; FileExistsError where one is there already."""
    described, body = folder / f"{key}.case.json", folder / f"{key}.body"
    for path in (described, body):
        if path.exists():
            raise FileExistsError(errno.EEXIST, "is there already, and nothing is written over", str(path))
    return described, body


def body_of(data: Mapping[str, Any] | Any) -> dict[str, Any]:
    """A request of the user's own; ValueError where it is none."""
    if not isinstance(data, dict) or not data.get("messages"):
        raise ValueError("is no request: a JSON object with messages")
    return data
