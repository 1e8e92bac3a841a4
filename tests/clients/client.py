"""The description of a client: how it is run, and how it shows what the proxy says. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Client:
    """One library.

    Attributes:
        name: Its own name.
        module: Its adapter: a module below ``tests.clients.adapters``, or a file in the folder ``node``.
        needs: The Python module that has to be importable, or the npm package.
        surfaces: The ways to use it that are tested, each named as the adapter knows it.
        errors: The class of the exception for each kind of error of the scenarios.
        runs: In the tests' own Python, in the major version before it, or in Node.
        tries: Requests for one answer when the error is curable: the first one and those after it.
        lacks: Tasks it has no way for.
        differs: Patterns of ``surface/scenario`` and the fields of the outcome that are expected to be different there,
            beside those of the scenario; `requests` is one of them, `tries` may be. All that match apply, in order.
        pending: Patterns of ``surface/scenario`` that do not pass yet, each with the reason.
    """

    name: str
    module: str
    needs: str
    surfaces: Sequence[str]
    errors: Mapping[str, str]
    runs: Literal["here", "before", "node"] = "here"
    tries: int = 3
    lacks: Sequence[str] = ()
    differs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pending: Mapping[str, str] = field(default_factory=dict)

    def different(self, surface: str, scenario: str) -> dict[str, Any]:
        """The fields that differ in one scenario."""
        found: dict[str, Any] = {}
        for pattern, fields in self.differs.items():
            if fnmatchcase(f"{surface}/{scenario}", pattern):
                found |= fields
        return found

    def awaits(self, surface: str, scenario: str) -> str | None:
        """Why one scenario does not pass yet."""
        return next(
            (why for pattern, why in self.pending.items() if fnmatchcase(f"{surface}/{scenario}", pattern)), None
        )
