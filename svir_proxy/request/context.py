"""What a rewrite may look at beside the body, and where it says what it changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import is_not
from typing import Any, Final

from svir_proxy.client_request import Body, ClientRequest
from svir_proxy.expectation import Expectation
from svir_proxy.profiles.schema import Fact, Profile

_UNTOLD: Final = re.compile(r"[^A-Za-z0-9_.:=+-]")
"""What a note may not hold: notes leave in a header, and clients choose the names of their fields."""
_LONGEST: Final = 120
_MOST: Final = 40


@dataclass(slots=True)
class Context:
    """One request on its way to one backend.

    Attributes:
        request: What the client asked.
        profile: What the backend's server does, as far as is known by now.
        model: The server's id of the model.
        notes: What was changed, in order; see `note`.
        expectation: What the answer has to be that the server does not see to, or None; see `expect`.
    """

    request: Final[ClientRequest]
    profile: Final[Profile]
    model: Final[str]
    notes: tuple[str, ...] = ()
    expectation: Expectation | None = None

    def note(self, text: str) -> None:
        """Tell a change as ``what=how``, once; cut to what a header can carry."""
        text = _tellable(text[:_LONGEST])
        if len(self.notes) >= _MOST:
            text = "more=untold"
        if text not in self.notes:
            self.notes = (*self.notes, text)

    def expect(self, expectation: Expectation) -> None:
        """Have the answer checked before it is let out; of several demands the first counts.

        A demanded call comes before a demanded format: an answer with calls has no text that could match.
        """
        if self.expectation is None:
            self.expectation = expectation

    def optional(self, name: str) -> Fact:
        """What the server does with an optional top-level field."""
        return self.profile.request.optional_fields.get(name, "unknown")


Rewrite = Callable[[Body, Context], Body]
"""Returns the same object when it has nothing to do and never mutates it; may raise ProxyError to refuse."""


@lru_cache(maxsize=256)
def _tellable(text: str) -> str:
    """*text*, cut to what is remembered here, as a header can carry it; most notes are told again and again."""
    return _UNTOLD.sub("?", text)


def without(body: Body, *names: str) -> Body:
    """*body* without the top-level keys *names*."""
    kept = dict(body)
    for name in names:
        kept.pop(name, None)
    return kept


def with_values(body: Body, values: Mapping[str, Any]) -> Body:
    """*body* with top-level *values* set; everything else is shared."""
    return {**body, **values}


def map_messages(body: Body, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Body:
    """*body* with each message changed; the same object when *change* returned every message as it was."""
    messages = body["messages"]
    changed = [change(message) for message in messages]
    return with_values(body, {"messages": changed}) if any(map(is_not, changed, messages)) else body
