"""JSON as servers write it, and JSON that every client can read.

orjson is strict and fast; what it refuses is read again leniently: lone surrogates in escapes (OpenRouter's backends),
raw control characters, NaN, broken UTF-8. What goes out is always valid UTF-8 and valid JSON.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

import orjson

from svir_proxy.bulk import MOST_VALUES, has_too_many_values

LARGEST_INTEGER: Final = (1 << 53) - 1
"""Integers beyond it are not the same number to every reader of JSON."""
_TOO_MANY: Final = "the JSON holds too many values"
_DECODER: Final = json.JSONDecoder(strict=False)


def loads(data: bytes) -> Any:
    """The JSON value in *data*; raises ValueError where it is none, or one that is far larger than its text."""
    if len(data) > MOST_VALUES and has_too_many_values(data):
        raise ValueError(_TOO_MANY)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return loads_leniently(data)


def loads_leniently(data: bytes) -> Any:
    """As `loads`, for text that orjson refuses; strings may hold lone surrogates. Raises ValueError."""
    if has_too_many_values(data):
        raise ValueError(_TOO_MANY)
    try:
        return json.loads(data.decode("utf-8", "replace"), strict=False)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def load_at(text: str, at: int) -> tuple[Any, int]:
    """The JSON value that begins at *at*, and where it ends; lenient. Raises ValueError."""
    try:
        return _DECODER.raw_decode(text, at)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def dumps(value: Any) -> bytes:
    """*value* as JSON in UTF-8, on one line.

    Lone surrogates become U+FFFD and numbers that are none become null. Raises ValueError where the value is nested
    too deeply for anyone to read.
    """
    try:
        return orjson.dumps(value)
    except (TypeError, RecursionError):
        try:
            text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))
        except RecursionError:
            raise ValueError("the JSON is nested too deeply") from None
        return whole_characters(text).encode()


def whole_characters(text: str) -> str:
    """*text* with pairs of surrogates joined and lone ones replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def has_surrogates(text: str) -> bool:
    """Whether *text* holds surrogates, which no UTF-8 can say."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def safe_integer(value: Any) -> int | None:
    """*value* as a non-negative integer every reader of JSON understands, else None."""
    if type(value) is int and 0 <= value <= LARGEST_INTEGER:
        return value
    if type(value) is float and 0 <= value <= LARGEST_INTEGER and value.is_integer():
        return int(value)
    return None


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
