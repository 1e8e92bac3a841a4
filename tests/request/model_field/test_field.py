"""What holds for the model in every kind of body: what it costs to look for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import pytest

from svir_proxy.request.model_field import ModelField, ModelInForm, ModelInJson

PIECE: Final = 64 * 1024
HEAD: Final = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
BODIES: Final[dict[str, tuple[Callable[[], ModelField], bytes, bytes]]] = {
    "a long string": (ModelInJson, b'{"input":"', b"x" * PIECE),
    "escapes": (ModelInJson, b'{"input":"', b"\\n" * (PIECE // 2)),
    "numbers": (ModelInJson, b'{"input":[1', b",12345" * (PIECE // 6)),
    "strings": (ModelInJson, b'{"input":["a"', b',"word"' * (PIECE // 7)),
    "lists": (ModelInJson, b'{"input":[[]', b",[[]]" * (PIECE // 5)),
    "blanks": (ModelInJson, b'{"input":', b" " * PIECE),
    "one number": (ModelInJson, b'{"input":', b"1" * PIECE),
    "a long key": (ModelInJson, b'{"', b"k" * PIECE),
    "a file": (lambda: ModelInForm(b"b"), HEAD, b"x" * PIECE),
    "a file of hyphens": (lambda: ModelInForm(b"b"), HEAD, b"-" * PIECE),
    "a file of empty lines": (lambda: ModelInForm(b"b"), HEAD, b"\r\n" * (PIECE // 2)),
}


@pytest.mark.parametrize("what", BODIES)
def test_each_piece_costs_the_same(what: str) -> None:
    """Counted in lines of code, which a piece of the end may not need more of than one of the beginning."""
    make, start, piece = BODIES[what]
    field = make()
    field.feed(start)
    field.feed(piece)
    first = _lines(field, piece)
    for _ in range(50):
        field.feed(piece)
    assert _lines(field, piece) <= first + 10
    assert first < 8 * PIECE


def _lines(field: ModelField, piece: bytes) -> int:
    count = 0

    def trace(frame: object, event: str, arg: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        field.feed(piece)
    finally:
        sys.settrace(before)
    return count
