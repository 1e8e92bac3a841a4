"""What the client sent and what went upstream, as the lines of one text in which each change is marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, Final, Literal, NamedTuple

from svir_proxy.response.json_text import dumps
from svir_proxy.server.inspector.veil import Veil

Mark = Literal[" ", "-", "+"]
MOST_LINES: Final = 400
"""Lines of one difference."""
MOST_CHARACTERS: Final = 100_000
_WIDEST: Final = 90
"""Characters of a value that stands on one line."""


class Line(NamedTuple):
    """One line of JSON."""

    mark: Mark
    """Whether both have it, or only the client's body, or only the upstream's."""
    depth: int
    text: str


def difference(before: Any, after: Any, veil: Veil) -> list[Line]:
    """The lines of *before* and *after*, two JSON values; compared as they are, shown as *veil* has them."""
    lines = _Difference(veil).compare("", "", before, after, 0)
    try:
        return list(_bounded(lines))
    except RecursionError:
        return [Line(" ", 0, "«nested too deeply to be shown»")]


def _bounded(lines: Iterator[Line]) -> Iterator[Line]:
    room = MOST_CHARACTERS
    for number, line in enumerate(lines):
        room -= len(line.text)
        if number == MOST_LINES or room < 0:
            yield Line(" ", 0, "«more»")
            return
        yield line


_NOTHING: Final = object()


class _Difference:
    def __init__(self, veil: Veil) -> None:
        self._veil = veil

    def compare(self, key: str, parent: str, before: Any, after: Any, depth: int) -> Iterator[Line]:
        """*key* is that of both; *parent* the key of what they stand in."""
        if before is after or before == after:
            yield from self._whole(" ", key, parent, after, depth)
        elif isinstance(before, Mapping) and isinstance(after, Mapping):
            yield Line(" ", depth, self._label(key) + "{")
            for name in before:
                inner = after.get(name, _NOTHING)
                if inner is _NOTHING:
                    yield from self._whole("-", name, key or parent, before[name], depth + 1)
                else:
                    yield from self.compare(name, key or parent, before[name], inner, depth + 1)
            for name in after:
                if name not in before:
                    yield from self._whole("+", name, key or parent, after[name], depth + 1)
            yield Line(" ", depth, "}")
        elif isinstance(before, list) and isinstance(after, list):
            yield Line(" ", depth, self._label(key) + "[")
            yield from self._items(key or parent, before, after, depth + 1)
            yield Line(" ", depth, "]")
        else:
            yield from self._whole("-", key, parent, before, depth)
            yield from self._whole("+", key, parent, after, depth)

    def _items(self, parent: str, before: list[Any], after: list[Any], depth: int) -> Iterator[Line]:
        """What begins and ends alike stands for itself; what is between is compared one by one."""
        start, most = 0, min(len(before), len(after))
        while start < most and before[start] == after[start]:
            start += 1
        end = 0
        while end < most - start and before[-1 - end] == after[-1 - end]:
            end += 1
        for item in before[:start]:
            yield from self._whole(" ", "", parent, item, depth)
        between = before[start : len(before) - end], after[start : len(after) - end]
        for old, new in zip_longest(*between, fillvalue=_NOTHING):
            if old is _NOTHING:
                yield from self._whole("+", "", parent, new, depth)
            elif new is _NOTHING:
                yield from self._whole("-", "", parent, old, depth)
            else:
                yield from self.compare("", parent, old, new, depth)
        for item in after[len(after) - end :]:
            yield from self._whole(" ", "", parent, item, depth)

    def _whole(self, mark: Mark, key: str, parent: str, value: Any, depth: int) -> Iterator[Line]:
        label = self._label(key)
        if not isinstance(value, (Mapping, list)):
            yield Line(mark, depth, label + _json(self._veil.leaf(value, key, parent)))
            return
        short = _json(self._veil.value(value, key, parent))
        if len(short) <= _WIDEST or not value:
            yield Line(mark, depth, label + short)
        elif isinstance(value, Mapping):
            yield Line(mark, depth, label + "{")
            for name, item in value.items():
                yield from self._whole(mark, name, key or parent, item, depth + 1)
            yield Line(mark, depth, "}")
        elif short.startswith('"'):  # a list that is told in words
            yield Line(mark, depth, label + short)
        else:
            yield Line(mark, depth, label + "[")
            for item in value:
                yield from self._whole(mark, "", key or parent, item, depth + 1)
            yield Line(mark, depth, "]")

    def _label(self, key: str) -> str:
        return f"{_json(self._veil.key(key))}: " if key else ""


def _json(value: Any) -> str:
    return dumps(value).decode()
