"""Texts of profiles and cases as Markdown that shows them as they are."""

from __future__ import annotations

import re
from typing import Final

_CODE: Final = r"(`[^`]*`|\boverrides(?:\.\w+)+|(?<!\S)--[a-z][\w-]+)"
"""What is code in a text: in backticks, a setting, a flag."""
_OWN_NOTES: Final = re.compile(r"\bprotocol \d[\d.]*")
"""A chapter of notes that readers do not have."""


def prose(text: str) -> str:
    """*text* of a profile or a case, as one line that no Markdown takes for more than it is."""
    plain = _OWN_NOTES.sub("noted", " ".join(text.split()))
    return "".join(map(_escaped, re.split(_CODE, plain)))


def _escaped(part: str) -> str:
    if part.startswith("`"):
        return part
    return f"`{part}`" if re.fullmatch(_CODE, part) else re.sub(r"([<*\[\]])", r"\\\1", part)


def cell(text: str) -> str:
    """*text* for a cell of a table."""
    return text.replace("|", "\\|")
