"""Where a JSON object or array ends, found while it arrives."""

from __future__ import annotations

import re
from typing import Final

_MARKS: Final = re.compile(r'["\\{}\[\]]')
_STRING_MARKS: Final = re.compile(r'["\\]')


class JsonScan:
    """Follows brackets and strings; linear however the text is cut. It does not validate."""

    __slots__ = ("_depth", "_escaped", "_in_string", "complete")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self.complete = False
        """A whole object or array was seen."""

    def feed(self, text: str) -> None:
        """Take the next piece of the text."""
        at = 0
        size = len(text)
        while at < size and not self.complete:
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            found = (_STRING_MARKS if self._in_string else _MARKS).search(text, at)
            if found is None:
                return
            at = found.end()
            mark = found[0]
            if mark == '"':
                self._in_string = not self._in_string
            elif mark == "\\":
                self._escaped = self._in_string
            elif mark in "{[":
                self._depth += 1
            else:
                self._depth -= 1
                self.complete = self._depth <= 0
