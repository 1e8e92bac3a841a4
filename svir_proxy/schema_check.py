"""Whether a model's answer is JSON of the client's schema, within a measure of work.

Neither comes from the operator: some hundred bytes of schema can refer to each other exponentially often, a pattern can
take Python's re a lifetime, and an error repeats the value it is about in words. Meanwhile every other stream waits. So
patterns and what compares each item with each other are not checked, work is counted, and a schema that is not decided
after so much of it demands nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import orjson

from svir_proxy.bulk import has_too_many_values

_UNCHECKED: Final = (
    "pattern", "patternProperties", "propertyNames", "uniqueItems", "unevaluatedProperties", "unevaluatedItems",
)  # fmt: skip
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_MOST: Final = 300_000
"""Units of work for one answer, each about a microsecond: an answer of some thousand values is checked in whole."""
_STEP: Final = 5
"""Units for one keyword at one value."""
_DEEPEST: Final = 100
"""Keywords within keywords; far below the depth at which Python gives up, which what is written in Rust dies of."""
_SHARE: Final = 50
"""Bytes that are looked through, or put into words, for one unit."""

Keyword = Callable[[Any, Any, Any, Any], Iterator[Any] | None]
"""As jsonschema calls it: validator, the keyword's value, the instance, the schema; gives errors."""


class _TooMuchError(Exception):
    """The work is used up."""


class _Measure:
    """The work of one check."""

    def __init__(self, schema: int, text: int) -> None:
        self._left = _MOST
        self._depth = 0
        self._schema = schema // _SHARE
        self._text = text // _SHARE

    def counted(self, name: str, check: Keyword) -> Keyword:
        """*check*, the keyword *name*, which gives up once the work is used up."""

        def keyword(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
            self._spend(_STEP + _length(value) + _length(instance))
            if name in _REFERENCES:
                self._spend(self._schema)  # it may be looked for everywhere
            elif name == "enum":
                nested = isinstance(instance, dict | list)  # each comparison goes into it
                self._spend(16 * _length(value) + self._text if nested else 4 * _length(value))
            elif name == "additionalProperties" and "patternProperties" in schema:
                return
            self._depth += 1
            if self._depth > _DEEPEST:
                raise _TooMuchError
            for error in check(validator, value, instance, schema) or ():
                self._spend(self._text)  # its message shows the value
                yield error
            self._depth -= 1

        return keyword

    def _spend(self, units: int) -> None:
        self._left -= units
        if self._left < 0:
            raise _TooMuchError


def mismatch(text: str, schema: Mapping[str, Any]) -> str | None:
    """Why *text* is no JSON that matches *schema*; None where it is, or where that is more than can be told."""
    if has_too_many_values(text):
        return "the answer holds too many values"
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        return f"the answer is not JSON: {exc}"
    # Imported here: it is slow to import, and only emulated schemas need it.
    from jsonschema import Draft202012Validator, exceptions, validators  # noqa: PLC0415 - see above
    from referencing import Registry  # noqa: PLC0415 - see above

    try:
        base = validators.validator_for(schema, default=Draft202012Validator)
        measure = _Measure(len(orjson.dumps(schema)), len(text))
        keywords = {name: measure.counted(name, check) for name, check in base.VALIDATORS.items()}
        validator = validators.extend(base, keywords | dict.fromkeys(_UNCHECKED, _accept))  # type: ignore[no-untyped-call]  # its stubs
        # An empty registry: a $ref into the network would be fetched otherwise, and the schema is the client's.
        error = exceptions.best_match(validator(schema, registry=Registry()).iter_errors(value))
    except Exception:  # noqa: BLE001 - a schema nobody can apply ($ref to nowhere, too much work) demands nothing more
        return None
    if error is None:
        return None
    where = "/".join(str(step) for step in error.absolute_path)
    return f"the answer does not match the schema at /{where}: {error.message[:300]}"


def _accept(*_: Any) -> None:
    """A keyword that is not checked."""


def _length(value: Any) -> int:
    return len(value) if isinstance(value, dict | list) else 0
