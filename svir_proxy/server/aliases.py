"""The operator's names for models: which backends a name means, as far as the configuration alone tells.

The more exactly a name is written, the earlier it counts: the name itself, then one with a ``*`` in it, the longer
before the shorter (of two that are as long the one that comes first). ``*`` alone takes what nobody else has, and so
comes after the servers' own lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class Aliases(Generic[T]):
    """The aliases of *backends*, which come in the order they are to be asked in, each with its own."""

    def __init__(self, backends: Iterable[tuple[T, Mapping[str, str]]]) -> None:
        named: dict[str, list[tuple[T, str]]] = {}
        for backend, models in backends:
            for alias, model in models.items():
                named.setdefault(alias, []).append((backend, model))
        self.exact = {alias: tuple(means) for alias, means in named.items() if "*" not in alias}
        """Backends and their own ids for the model, by the whole name."""
        self.has_stars = len(self.exact) < len(named)
        """Whether there is more than whole names."""
        self._rest = named.get("*", [])
        starred = [alias for alias in named if "*" in alias and alias != "*"]
        parts = {alias: alias.partition("*") for alias in sorted(starred, key=len, reverse=True)}
        self._patterns = [(before, after, named[alias]) for alias, (before, _, after) in parts.items()]

    def matching(self, model: str) -> tuple[tuple[T, str], ...]:
        """Whom a name with a ``*`` means that *model* is like: the most exact one. None: ``()``."""
        for before, after, means in self._patterns:
            if not _is_between(before, model, after):
                continue
            if filled := _filled(means, model[len(before) : len(model) - len(after)]):
                return filled
        return ()

    def pattern_of(self, model: str) -> str | None:
        """The name with a ``*`` that *model* is like: that of `matching`, else ``*``; None: it is like none."""
        for before, after, means in self._patterns:
            if _is_between(before, model, after) and _filled(means, model[len(before) : len(model) - len(after)]):
                return f"{before}*{after}"
        return "*" if self._rest else None

    def names_of(self, backend: T, model: str) -> Iterator[str]:
        """The aliases of what *backend* calls *model*; those with a ``*`` filled as the id is, or as they stand."""
        yield from (alias for alias, means in self.exact.items() if (backend, model) in means)
        for before, after, means in [*self._patterns, ("", "", self._rest)]:
            for whose, its in means:
                first, star, last = its.partition("*")
                if whose is backend and not star and its == model:
                    yield f"{before}*{after}"
                elif whose is backend and star and _is_between(first, model, last):
                    yield f"{before}{model[len(first) : len(model) - len(last)]}{after}"

    def rest(self, model: str) -> tuple[tuple[T, str], ...]:
        """Whom ``*`` means for *model*."""
        return _filled(self._rest, model)


def _is_between(before: str, model: str, after: str) -> bool:
    return len(model) >= len(before) + len(after) and model.startswith(before) and model.endswith(after)


def _filled(means: Iterable[tuple[T, str]], text: str) -> tuple[tuple[T, str], ...]:
    """*means* with *text* for the star in each id; without those that come to no name at all."""
    return tuple((backend, model.replace("*", text)) for backend, model in means if model != "*" or text)
