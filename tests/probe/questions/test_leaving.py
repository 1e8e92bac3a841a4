from __future__ import annotations

from dataclasses import replace

import pytest

from svir_proxy.probe.answer import Answer, Ask
from svir_proxy.probe.questions.leaving import ABOUT_LEAVING, LONG
from svir_proxy.probe.questions.opening import OPENING
from tests.probe.simulated import Simulated
from tests.probe.support import hold


class Timed(Simulated):
    """Takes *whole* seconds for a long answer, and *behind* seconds for the question after one that was left."""

    def __init__(self, whole: float, behind: float) -> None:
        super().__init__()
        self.whole, self.behind, self.left = whole, behind, False

    async def ask(self, ask: Ask, seconds: float) -> Answer:
        answer = await super().ask(ask, seconds)
        took, self.left = (self.behind if self.left else 0.1), ask.leave_after_output
        return replace(answer, seconds=self.whole if LONG in str(ask.body) else took)


@pytest.mark.parametrize(
    ("whole", "behind", "found"),
    [(20.0, 18.0, "goes on"), (20.0, 0.2, "stops or has places"), (1.0, 0.9, "unknown")],
)
def test_how_long_the_next_one_waits(whole: float, behind: float, found: str) -> None:
    assert hold(Timed(whole, behind), [*OPENING, *ABOUT_LEAVING])["leaving"].value == found
