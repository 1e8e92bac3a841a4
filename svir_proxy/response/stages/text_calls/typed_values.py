"""The type of a value that markup does not tell: what the tool's schema says.

In XML-like forms every value is plain text. Qwen's, GLM's and MiniMax's own parsers ask the schema: a value is JSON
where the schema names another type than string and the text parses, else a string.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from svir_proxy.response.stages.text_calls.literals import PYTHON, quoted

_DEPTH: Final = 8
"""Levels of references and unions that are followed."""
_MOST: Final = 100
"""Parts of a schema that are looked at: the client's may refer to itself a thousand times over."""


def json_of_text(text: str, schema: Mapping[str, Any], key: str) -> str:
    """The JSON text of the parameter *key* that was written as *text*; *schema* is that of all parameters."""
    properties = schema.get("properties")
    types = _types(properties.get(key), schema) if isinstance(properties, Mapping) else set()
    bare = text.strip()
    if "string" in types:
        return "null" if bare == "null" and "null" in types else quoted(text)
    if types & {"boolean", "null"}:
        bare = PYTHON.words.get(bare, bare)
    return json_or_string(bare, text) if types else quoted(text)


def json_or_string(bare: str, text: str) -> str:
    """*bare* where it is JSON, else *text* as a string."""
    try:
        orjson.loads(bare)
    except orjson.JSONDecodeError:
        return quoted(text)
    return bare


def _types(schema: Any, root: Mapping[str, Any]) -> set[str]:
    """The types *schema* allows, as far as it says: level by level, each part once, and not without end."""
    types: set[str] = set()
    seen: set[int] = set()
    level = [schema]
    for _ in range(_DEPTH):
        deeper: list[Any] = []
        for part in level:
            if not isinstance(part, Mapping) or id(part) in seen or len(seen) >= _MOST:
                continue
            seen.add(id(part))
            types.update(_own_types(part))
            for union in ("anyOf", "oneOf", "allOf"):
                branches = part.get(union)
                if isinstance(branches, list):
                    deeper += branches[:_MOST]
            if "$ref" in part:
                deeper.append(_target(part["$ref"], root))
        level = deeper
    return types


def _own_types(schema: Mapping[str, Any]) -> Iterator[str]:
    """The types that *schema* names itself."""
    kind = schema.get("type")
    yield from (name for name in (kind if isinstance(kind, list) else [kind])[:_MOST] if isinstance(name, str))
    if kind is None:
        values = schema.get("enum")
        if isinstance(values, list) and any(isinstance(value, str) for value in values[:_MOST]):
            yield "string"
        yield from (name for key, name in (("properties", "object"), ("items", "array")) if key in schema)


def _target(reference: Any, root: Mapping[str, Any]) -> Any:
    """What a reference inside the same schema points at; None where it points nowhere."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    target: Any = root
    for step in reference[2:].split("/"):
        target = target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
    return target
