"""Operators' patterns, which run on text that somebody else chose: RE2, whose searches take linear time.

Python's own ``re`` tries ways back, and an answer can be made for which a harmless pattern tries for hours. RE2 has no
way back, and no look-around and no back references either; https://github.com/google/re2/wiki/Syntax has what it takes.
Needs the extra ``rules``, which is loaded with the first pattern.
"""

from __future__ import annotations

from typing import Any, Final

_LARGEST: Final = 20_000
"""Instructions of a compiled pattern: what is larger is no pattern that somebody wrote, and searches slowly."""
_STEPS: Final = 1_000_000_000
"""Characters that all searches for one pattern in one text may go over, a second's work."""
_MATCHES: Final = 1000
"""Matches that are replaced one by one in any text."""


class PatternError(ValueError):
    """A pattern that cannot be used; says why, and what to do."""


class Pattern:
    """One regular expression in RE2's syntax. Raises PatternError where it is none."""

    __slots__ = ("_compiled",)

    def __init__(self, text: str) -> None:
        try:
            import re2  # noqa: PLC0415 - an extra, for those alone who have patterns
        except ImportError:
            raise PatternError("needs google-re2, which is not installed: pip install 'svir-proxy[rules]'") from None
        options = re2.Options()
        options.log_errors = False
        try:
            self._compiled: Any = re2.compile(text, options)
        except re2.error as exc:
            raise PatternError(f"is no pattern of RE2, which has no look-around and no \\1: {_words(exc)}") from None
        except UnicodeEncodeError:
            raise PatternError("holds half a character, which no text has; write the whole one") from None
        if self._compiled.programsize > _LARGEST:
            raise PatternError("is too large: its repetitions come to very much; write smaller ones")

    def found_in(self, text: str) -> bool:
        """Whether it matches anywhere in *text*."""
        return self._compiled.search(_whole(text)) is not None

    def replaced(self, text: str, replacement: str) -> str:
        """*text* with *replacement*, word for word, in place of each match that is not empty.

        To find one match is linear; to find many can be quadratic, where each search looks ahead to the end. So their
        number has a bound: what is left behind it is replaced as a whole.
        """
        text = _whole(text)
        left = max(_MATCHES, _STEPS // max(len(text), 1))
        pieces: list[str] = []
        end = 0
        for match in self._compiled.finditer(text):
            start, stop = match.span()
            if start == stop:
                continue
            if not left:
                return "".join((*pieces, text[end:start], replacement))
            left -= 1
            pieces += (text[end:start], replacement)
            end = stop
        return "".join((*pieces, text[end:])) if pieces else text


def _words(error: Exception) -> str:
    """What is wrong, without the piece of the pattern behind the colon: that may be what nobody shall read."""
    said = error.args[0]
    return (said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)).partition(":")[0]


def _whole(text: str) -> str:
    """*text* without lone surrogates, which no UTF-8 can say, and no client will see."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
