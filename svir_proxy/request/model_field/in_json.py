"""The ``model`` of a JSON object.

Strict about the object itself (its keys and what stands between them), and about what may stand outside of strings at
all; what is inside of its values is the server's to judge. Text is passed over by regular expressions, so a body costs
about what copying it does, however it is cut.
"""

from __future__ import annotations

import json
import re
from enum import Enum, auto
from typing import Final

from svir_proxy.bulk import MOST_VALUES
from svir_proxy.errors import ProxyError
from svir_proxy.request.model_field.field import MAX_MODEL, said_twice, too_long
from svir_proxy.request.other_models import OTHER_MODELS

_TEXT: Final = re.compile(rb'[^"\\]*+(?:(?>\\.[^"\\]*+))*+', re.DOTALL)
"""The inside of a string, up to its end or to half an escape."""
_INNER: Final = re.compile(rb'(?:(?>[ \t\r\n:,0-9A-Za-z+.-]++|"[^"\\]*+(?:(?>\\.[^"\\]*+))*+"))*+', re.DOTALL)
"""What stands between the brackets of a value: strings, and what stands between those."""
_BLANK: Final = re.compile(rb"[ \t\r\n]*+")
_SCALAR: Final = re.compile(rb"[0-9A-Za-z+.-]++")
_BOOLEANS: Final = (b"true", b"false")
_OPENING: Final = frozenset(b"{[")
_CLOSING: Final = frozenset(b"}]")
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_MAX_KEY: Final = 2 + 6 * max(map(len, OTHER_MODELS))
"""Bytes of a key that is looked at: each of its letters can be an escape."""


class _At(Enum):
    """Where in the outermost object."""

    START = auto()
    FIRST_KEY = auto()
    KEY = auto()
    COLON = auto()
    VALUE = auto()
    SCALAR = auto()
    COMMA = auto()
    END = auto()


class ModelInJson:
    """Follows a JSON object. See `ModelField`.

    *alone*: why fields that name other models in its place are refused, as a sentence begins; ``""``: they are not.
    """

    def __init__(self, *, alone: str = "") -> None:
        self._alone = alone
        self.model = ""
        self.span: tuple[int, int] | None = None
        self._at = _At.START
        self._depth = 0
        self._in_string = self._escaped = False
        self._marks = 0
        self._offset = 0  # of the piece in the body
        self._start = 0  # of the token that is kept
        self._kept: bytearray | None = None  # a key, or the value of the model, as far as it has come
        self._is_model = self._seen = False

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        at, size = 0, len(data)
        while at < size:
            if self._in_string:
                at = self._string(data, at)
            elif self._depth > 1:
                at = self._value(data, at)
            else:
                at = self._outer(data, at)
        self._offset += size

    def end(self) -> None:
        """The body has ended."""
        if self._at is not _At.END:
            empty = self._at is _At.START
            raise _invalid("it is empty" if empty else "it breaks off before the object ends")

    def written(self, model: str) -> bytes:
        """*model* as a JSON string."""
        return json.dumps(model).encode("ascii")

    def _string(self, data: bytes, at: int) -> int:
        """On to the end of a string, or of the piece."""
        start = at
        if self._escaped:
            self._escaped = False
            at += 1
        found = _TEXT.match(data, at)
        assert found is not None
        at = found.end()
        if at < len(data):
            self._escaped = data[at] == _BACKSLASH  # half an escape, at the end of the piece
            self._in_string = self._escaped
            at += 1
        if self._kept is not None:
            self._keep(data[start:at])
        if not self._in_string and self._depth == 1:
            self._end_string(self._offset + at)
        return at

    def _value(self, data: bytes, at: int) -> int:
        """On within an object or a list in the outermost object."""
        size, depth = len(data), self._depth
        start = at
        while depth > 1 and at < size:
            found = _INNER.match(data, at)
            assert found is not None
            at = found.end()
            if at < size:
                mark = data[at]
                at += 1
                if mark in _OPENING:
                    depth += 1
                elif mark in _CLOSING:
                    depth -= 1
                elif mark == _QUOTE:  # of a string that this piece does not end
                    self._in_string = True
                    break
                else:
                    raise _unexpected(data[at - 1 : at])
        self._count(data.count(b"[", start, at) + data.count(b"{", start, at))
        self._depth = depth
        return at

    def _outer(self, data: bytes, at: int) -> int:
        """On between the keys and values of the outermost object."""
        if self._at is _At.SCALAR or (self._at is _At.VALUE and _SCALAR.match(data, at)):
            return self._scalar(data, at)
        found = _BLANK.match(data, at)
        assert found is not None
        if found.end() > at:
            return found.end()
        mark = data[at : at + 1]
        self._count(1)
        if mark == b'"' and self._at in (_At.FIRST_KEY, _At.KEY, _At.VALUE):
            self._in_string = True
            if self._at is not _At.VALUE or self._is_model:
                self._start, self._kept = self._offset + at, bytearray(mark)
        elif mark in b"{[" and self._at is _At.VALUE:
            if self._is_model:
                raise _no_string("an object" if mark == b"{" else "a list")
            self._depth, self._at = 2, _At.COMMA
        elif (step := _STEPS.get((self._at, mark))) is not None:
            self._at = step
            self._depth = 0 if step is _At.END else 1
        elif self._at is _At.START:
            raise ProxyError("invalid_json", "The request body must be a JSON object.")
        else:
            raise _unexpected(mark)
        return at + 1

    def _scalar(self, data: bytes, at: int) -> int:
        """On within a number, true, false or null."""
        if self._at is _At.VALUE:
            self._at = _At.SCALAR
            self._kept = bytearray() if self._is_model else None
        found = _SCALAR.match(data, at)
        if found is not None:
            if self._kept is not None:
                self._keep(found[0])
            return found.end()
        if self._kept is not None and bytes(self._kept) != b"null":
            raise _no_string("a boolean" if bytes(self._kept) in _BOOLEANS else "a number")
        self._at, self._kept = _At.COMMA, None
        return at

    def _count(self, marks: int) -> None:
        """What a server makes of brackets is far larger than their bytes; and each takes its time here, too."""
        self._marks += marks
        if self._marks > MOST_VALUES:
            raise ProxyError("request_too_large", f"The request body holds more than {MOST_VALUES} values.")

    def _keep(self, data: bytes) -> None:
        assert self._kept is not None
        self._kept += data
        if self._at in (_At.FIRST_KEY, _At.KEY):
            if len(self._kept) > _MAX_KEY:
                self._kept = None
        elif len(self._kept) > MAX_MODEL:
            raise too_long()

    def _end_string(self, end: int) -> None:
        """A string of the outermost object has ended: a key, or a value."""
        kept, self._kept = self._kept, None
        if self._at is _At.VALUE:
            self._at = _At.COMMA
            if kept is not None:
                self.model, self.span = _text(kept), (self._start, end)
            return
        self._at = _At.COLON
        key = None if kept is None else _text(kept)
        if self._alone and key in OTHER_MODELS:
            raise ProxyError("model_not_allowed", f"{self._alone}, and so {key!r} may name no others here.", param=key)
        self._is_model = key == "model"
        if self._is_model and self._seen:
            raise said_twice()
        self._seen = self._seen or self._is_model


_STEPS: Final = {
    (_At.START, b"{"): _At.FIRST_KEY,
    (_At.FIRST_KEY, b"}"): _At.END,
    (_At.COLON, b":"): _At.VALUE,
    (_At.COMMA, b","): _At.KEY,
    (_At.COMMA, b"}"): _At.END,
}


def _text(string: bytearray) -> str:
    try:
        text: str = json.loads(string.decode("utf-8", "replace"), strict=False)
    except ValueError:
        raise _invalid("a key or the model holds an escape that is none") from None
    return text


def _no_string(what: str) -> ProxyError:
    return ProxyError("invalid_request", f"'model' must be a string, not {what}.", param="model")


def _invalid(why: str) -> ProxyError:
    return ProxyError("invalid_json", f"The request body is not valid JSON: {why}.")


def _unexpected(mark: bytes) -> ProxyError:
    return _invalid(f"{mark.decode('latin-1')!a} stands where it cannot")
