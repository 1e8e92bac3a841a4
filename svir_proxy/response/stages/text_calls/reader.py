"""Reading a grammar from text that comes in pieces.

A grammar is a generator: it calls the reader's parts with ``yield from``, and whatever needs more text yields. So a
grammar is written as if the text were there, each character is looked at once however the text is cut, and text that
cannot be a call is found out at its first wrong character.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import lru_cache
from io import StringIO
from typing import Final, TypeVar

_T = TypeVar("_T")
Parse = Generator[None, None, _T]
"""A part of a grammar: yields when it needs more text, returns what it read, raises ``Rejected``."""

_SPACES: Final = re.compile(r"[ \t\r\n]*")


class Rejected(Exception):  # noqa: N818 - not an error: the text is no call
    """The text is no call; what was read of it is text, and reading goes on where the reader stands."""


class Reader:
    """The text from where reading stands, and the raw text held back since ``hold``."""

    __slots__ = ("_from", "_held", "at", "ended", "text")

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        """Where reading stands in *text*."""
        self.ended = False
        """No more text will come."""
        self._held = StringIO()
        self._from = 0  # where the held part of `text` begins

    def feed(self, piece: str) -> None:
        """Add the next piece of text."""
        if self._from < self.at:
            self._held.write(self.text[self._from : self.at])
        self.text = self.text[self.at :] + piece
        self.at = self._from = 0

    def hold(self) -> None:
        """Begin to hold back here; what was held is forgotten."""
        if self._held.tell():
            self._held = StringIO()
        self._from = self.at

    def held(self) -> str:
        """The raw text read since ``hold``."""
        return self._held.getvalue() + self.text[self._from : self.at]

    @property
    def held_size(self) -> int:
        """Its length, in characters."""
        return self._held.tell() + self.at - self._from

    def peek(self) -> Parse[str]:
        """The next character, not taken; ``""`` at the end."""
        while self.at == len(self.text) and not self.ended:
            yield
        return self.text[self.at : self.at + 1]

    def one_of(self, *literals: str) -> Parse[str]:
        """Take the longest of *literals* that comes next; ``""`` where none does."""
        longest = max(map(len, literals), default=0)
        while True:
            rest = self.text[self.at : self.at + longest]
            if self.ended or not any(len(literal) > len(rest) and literal.startswith(rest) for literal in literals):
                found = max((literal for literal in literals if rest.startswith(literal)), key=len, default="")
                self.at += len(found)
                return found
            yield

    def expect(self, *literals: str) -> Parse[str]:
        """Take the longest of *literals* that comes next; one must."""
        found = yield from self.one_of(*literals)
        if not found:
            raise Rejected
        return found

    def run(self, characters: re.Pattern[str]) -> Parse[str]:
        """Take what matches *characters*, a pattern that repeats one set of characters and matches nothing too."""
        out = StringIO()
        while True:
            found = characters.match(self.text, self.at)
            assert found is not None
            out.write(found[0])
            self.at = found.end()
            if self.at < len(self.text) or self.ended:
                return out.getvalue()
            yield

    def spaces(self) -> Parse[str]:
        """Take JSON's white space."""
        return self.run(_SPACES)

    def until(self, *ends: str) -> Parse[tuple[str, str]]:
        """Take the text before the first of *ends*, and it; rejects where none comes."""
        pattern, keep = _ends(ends)
        out = StringIO()
        while True:
            found = pattern.search(self.text, self.at)
            if found is not None:
                out.write(self.text[self.at : found.start()])
                self.at = found.end()
                return out.getvalue(), found[0]
            stop = max(self.at, len(self.text) - (0 if self.ended else keep))
            out.write(self.text[self.at : stop])
            self.at = stop
            if self.ended:
                raise Rejected
            yield

    def end(self) -> Parse[None]:
        """Take the white space before the end of the answer; nothing else may come."""
        yield from self.spaces()
        if self.at < len(self.text):
            raise Rejected


@lru_cache(maxsize=128)
def _ends(ends: tuple[str, ...]) -> tuple[re.Pattern[str], int]:
    return re.compile("|".join(map(re.escape, ends))), max(map(len, ends)) - 1
