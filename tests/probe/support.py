"""Holds interviews with servers that are functions: no network, no clock, no waiting."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from svir_proxy.probe.answer import Reader
from svir_proxy.probe.finding import Finding
from svir_proxy.probe.interview import Interview, Limits
from svir_proxy.probe.questions import QUESTIONS
from svir_proxy.probe.subject import Subject
from svir_proxy.profiles import load_profile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from svir_proxy.probe.dialogue import Question
    from svir_proxy.probe.wire import Wire

GENERIC = load_profile("generic")
ENDLESS = Limits(seconds=1e9)


@dataclass
class Held:
    """An interview that was held, and what was told of it meanwhile."""

    interview: Interview
    told: list[tuple[int, str]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    def __getitem__(self, fact: str) -> Finding:
        """The last finding on *fact*, by its path below ``request.`` or as it is."""
        names = (fact, f"request.{fact}")
        return [finding for finding in self.interview.findings if finding.fact in names][-1]


def hold(
    wire: Wire,
    questions: Iterable[Question] = QUESTIONS,
    *,
    limits: Limits = ENDLESS,
    clock: Any = lambda: 0.0,
    secrets: tuple[str, ...] = (),
    **subject: Any,
) -> Held:
    """Ask the server behind *wire*; *subject*: what is known of it beside its model, ``m``."""

    async def pause(seconds: float) -> None:
        held.pauses.append(seconds)

    def tell(number: int, question: Question, found: list[Finding] | None) -> None:
        if found is not None:
            held.told.append((number, question.title))

    known = Subject(**{"model": "m", "base": GENERIC, **subject})
    held = Held(Interview(wire, known, Reader(known.base, secrets), limits, clock, pause, tell))
    asyncio.run(held.interview.hold(questions))
    return held
