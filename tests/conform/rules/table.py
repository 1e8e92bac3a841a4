"""How the tables of servers are held against the rules: each server breaks one rule, and that one alone is found."""

from __future__ import annotations

from dataclasses import dataclass

from tests.conform.servers import Change, broken


@dataclass(frozen=True)
class Server:
    """A server that breaks a rule, and what cannot be kept then."""

    change: Change
    too: frozenset[str] = frozenset()
    """Other rules that no such server can keep."""


def breaks(change: Change, *too: str) -> Server:
    return Server(change, frozenset(too))


def check(rule: str, server: Server) -> None:
    """The rule is found broken, and none but those that have to be."""
    assert broken(server.change) == {rule} | server.too
