"""Names of models as the operator writes them where rules are for some: whole, or with one ``*`` for any text."""

from __future__ import annotations


def is_like(name: str, pattern: str) -> bool:
    """Whether *name* is what *pattern* says."""
    before, star, after = pattern.partition("*")
    if not star:
        return name == pattern
    return len(name) >= len(before) + len(after) and name.startswith(before) and name.endswith(after)
