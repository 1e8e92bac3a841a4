"""What an answer has to be because the request demanded it, on a server that does not see to it itself.

Only a request whose demand the backend ignores or rejects has an expectation; its answer is held until it is known to
be met.
"""

from __future__ import annotations

import json
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from svir_proxy.bulk import has_too_many_values
from svir_proxy.schema_check import mismatch

_LANGUAGE: Final = string.ascii_letters + string.digits + "+-_"
"""What the name of a language after a code fence is made of."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the answer to one request must hold.

    Attributes:
        fact: The demand as notes name it: ``tool_choice.required``, ``response_format.json_schema``, ...
        calls: The answer must call one of these functions; None: calls are not demanded.
        schema: The answer's text must be JSON that matches; None: any text will do.
    """

    fact: str
    calls: frozenset[str] | None = None
    schema: Mapping[str, Any] | None = None

    def unmet(self, calls: Sequence[str], text: str) -> str | None:
        """Why an answer with *calls* (names) and *text* does not do; None where it does."""
        if self.calls is not None:
            if not calls:
                return "no function was called"
            wrong = [name for name in calls if name not in self.calls]
            return f"{wrong[0]} was called, not {' or '.join(sorted(self.calls))}" if wrong else None
        if self.schema is None or calls:
            return None
        return mismatch(text, self.schema)


def unfenced(text: str) -> str:
    """The JSON in *text* without what models put around it: a code fence, prose before it; else *text* as it is."""
    stripped = text.strip()
    if has_too_many_values(stripped):
        return text
    if _is_json(stripped):
        return stripped
    start = stripped.find("```")
    if start >= 0:
        inside = stripped[start + 3 :].rpartition("```")[0]
        for candidate in (inside.strip(), inside.lstrip(_LANGUAGE).strip()):
            if _is_json(candidate):
                return candidate
    opening = min((at for at in (stripped.find("{"), stripped.find("[")) if at >= 0), default=-1)
    if opening >= 0:
        try:
            _, end = json.JSONDecoder().raw_decode(stripped, opening)
        except (ValueError, RecursionError):
            return text
        if not stripped[end:].strip():
            return stripped[opening:end]
    return text


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
