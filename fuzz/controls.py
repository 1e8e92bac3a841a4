"""The first bytes of an input choose the circumstances; the rest is what came over the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self, TypeVar

T = TypeVar("T")

SIZE: Final = 8
"""Bytes of controls before the wire's."""


class Controls:
    """Choices made by bytes, one after the other; past the last byte the first option is chosen."""

    def __init__(self, data: bytes) -> None:
        self._bytes = iter(data)

    @classmethod
    def split(cls, data: bytes) -> tuple[Self, bytes]:
        """The controls of an input, and the bytes behind them."""
        return cls(data[:SIZE]), data[SIZE:]

    def number(self) -> int:
        """0 to 255."""
        return next(self._bytes, 0)

    def pick(self, options: Sequence[T]) -> T:
        """One of *options*; one byte, or two where there are more than 256."""
        number = self.number() if len(options) <= 1 << 8 else self.number() << 8 | self.number()
        return options[number % len(options)]


def chosen(*numbers: int) -> bytes:
    """The control bytes that make these choices."""
    return bytes(numbers).ljust(SIZE, b"\0")
