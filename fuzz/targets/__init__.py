"""What is fuzzed. Each target is a module with ``check(data)``, which raises for a finding, and ``seeds()``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from fuzz.targets import answer, error, http, models, request


class Target(NamedTuple):
    """Something that takes bytes.

    Attributes:
        check: Takes an input, controls first; returns how it ended in a word, raises whatever for a finding.
        seeds: Inputs to begin with, from the recordings.
    """

    check: Callable[[bytes], str]
    seeds: Callable[[], Iterable[bytes]]


TARGETS: Final = {
    module.__name__.rpartition(".")[2]: Target(module.check, module.seeds)
    for module in (answer, request, http, error, models)
}
"""By name."""
