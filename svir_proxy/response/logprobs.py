"""Token probabilities in OpenAI's shape; what is not in that shape is left out.

llama.cpp adds token ids, others leave out ``bytes`` or ``top_logprobs``, some say -Infinity, which is no JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from svir_proxy.response.events import LogprobsReported

_NEVER: Final = -9999.0
"""What OpenAI writes for a token that cannot come."""


def read_logprobs(reported: Any) -> LogprobsReported | None:
    """The probabilities in a choice's ``logprobs``; None where there are none that can be read."""
    if not isinstance(reported, dict):
        return None
    content = _tokens(reported.get("content"))
    refusal = _tokens(reported.get("refusal"))
    return LogprobsReported(content, refusal) if content or refusal else None


def joined_logprobs(reports: Iterable[LogprobsReported]) -> dict[str, list[dict[str, Any]] | None]:
    """A choice's ``logprobs`` that says what all *reports* say."""
    content: list[dict[str, Any]] = []
    refusal: list[dict[str, Any]] = []
    for report in reports:
        content += report.content or ()
        refusal += report.refusal or ()
    return {"content": content or None, "refusal": refusal or None}


def _tokens(items: Any) -> list[dict[str, Any]] | None:
    if not isinstance(items, list):
        return None
    tokens = []
    for item in items:
        token = _token(item)
        if token is not None:
            tops = item.get("top_logprobs")
            token["top_logprobs"] = [t for top in tops if (t := _token(top))] if isinstance(tops, list) else []
            tokens.append(token)
    return tokens or None


def _token(item: Any) -> dict[str, Any] | None:
    if not isinstance(item, dict) or not isinstance(item.get("token"), str):
        return None
    logprob = item.get("logprob")
    if logprob is None or (isinstance(logprob, float) and not math.isfinite(logprob)):
        logprob = _NEVER
    if not isinstance(logprob, int | float) or isinstance(logprob, bool):
        return None
    raw = item.get("bytes")
    is_bytes = isinstance(raw, list) and all(type(b) is int and 0 <= b < 256 for b in raw)
    return {"token": item["token"], "logprob": logprob, "bytes": raw if is_bytes else None}
