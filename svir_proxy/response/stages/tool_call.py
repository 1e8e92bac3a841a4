"""One structured call under way: the name as far as it is known, the arguments as far as they came.

Both may come in any number of pieces; the work is linear in the characters, and what went out is forgotten once it can
no longer be told from a repetition.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from svir_proxy.response.json_scan import JsonScan
from svir_proxy.response.json_text import loads

PLACEHOLDER: Final = "{}"
"""Arguments of a call that has none; some servers send it ahead of the real ones."""
_KEEP: Final = 1 << 20
"""Characters of arguments that are remembered after they went out, to see a repetition of them."""


class CallName:
    """A function's name, held against the listed tools while it grows."""

    __slots__ = ("_pieces", "_possible", "_tools", "size")

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = tools
        self._possible = tools  # the tools that begin with the name so far
        self._pieces: list[str] = []
        self.size = 0

    @property
    def text(self) -> str:
        """The name so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    @property
    def is_listed(self) -> bool:
        """Whether it is a listed tool's."""
        return any(len(tool) == self.size for tool in self._possible)

    @property
    def is_open(self) -> bool:
        """Whether more of it can make it a listed tool's."""
        return any(len(tool) > self.size for tool in self._possible)

    def begins(self, text: str) -> bool:
        """Whether *text* is the name so far, or that and more."""
        return self.size <= len(text) and text.startswith(self.text)

    def can_go_on(self, text: str) -> bool:
        """Whether the name so far and *text* are how a listed tool begins."""
        return any(tool.startswith(text, self.size) for tool in self._possible)

    def add(self, text: str) -> None:
        """Take the next piece, or the name so far once more."""
        if self.begins(text) and not self.can_go_on(text):
            self._pieces, self.size, self._possible = [], 0, self._tools
        self._possible = [tool for tool in self._possible if tool.startswith(text, self.size)]
        self._pieces.append(text)
        self.size += len(text)


class Call:
    """One call: `number` is its index in the answer, -1 until it has gone out."""

    __slots__ = (
        *("_digest", "_kept", "_pieces", "_scan", "_sent"),
        *("extra", "id", "is_again", "name", "name_over", "number", "size", "whole"),
    )

    def __init__(self, tools: Collection[str]) -> None:
        self.number = -1
        self.id = ""
        self.extra: Any = None
        """What the server demands back with the call."""
        self.name = CallName(tools)
        self.is_again = False
        """It began with the name of the call before it, and nothing else to tell it from that."""
        self.name_over = False
        """Arguments came without a name beside them: no more of it is to be expected."""
        self.size = 0
        """Characters of the arguments."""
        self.whole = False
        """The arguments came as one value."""
        self._pieces: list[str] = []
        self._sent = 0  # pieces that went out
        self._kept = True  # the pieces that went out are still here
        self._digest: int | None = None  # of the arguments, once the call has ended
        self._scan = JsonScan()

    @property
    def is_complete(self) -> bool:
        """Whether nothing more of the arguments is to be expected."""
        return self.whole or self._scan.complete

    @property
    def has_ended(self) -> bool:
        """Whether its last piece has gone out."""
        return self._digest is not None

    @property
    def is_placeholder(self) -> bool:
        """Whether the arguments are none, none of which has gone out."""
        return self.size == len(PLACEHOLDER) and not self._sent and self.text() == PLACEHOLDER

    @property
    def is_doubtful(self) -> bool:
        """Whether it may be no call after all: a name once more is one only if arguments come too."""
        return self.is_again and not self.size

    def text(self) -> str:
        """The arguments, as far as they are kept."""
        return "".join(self._pieces)

    def says(self, text: str) -> bool:
        """Whether *text* is the arguments once more; False where that is not known."""
        if len(text) != self.size:
            return False
        return hash(text) == self._digest if self.has_ended else self._kept and text == self.text()

    def add(self, text: str) -> None:
        """Take the next piece of the arguments."""
        self._pieces.append(text)
        self.size += len(text)
        self._scan.feed(text)

    def drop_placeholder(self) -> None:
        """The real arguments come."""
        self._pieces, self.size, self._scan = [], 0, JsonScan()

    def take(self) -> list[str]:
        """The pieces of the arguments that have not gone out, which now do."""
        pieces = self._pieces[self._sent :]
        self._sent = len(self._pieces)
        if self.size > _KEEP:
            self._pieces, self._sent, self._kept = [], 0, False
        return pieces

    def end(self) -> str | None:
        """The last piece has gone out: the arguments are forgotten; returns them, None where they are not kept."""
        text = self.text() if self._kept else None
        self._digest = hash(text)
        self._pieces = []
        return text


def is_json(text: str) -> bool:
    """Whether *text* is one JSON value."""
    try:
        loads(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return False
    return True
