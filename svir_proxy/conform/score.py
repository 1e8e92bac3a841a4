"""How many of what was shown was right, of all there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["kept", "broken", "not shown"]


@dataclass(frozen=True, slots=True)
class Score:
    """*kept* of *shown*, of *rules* (or cases) in all."""

    kept: int
    shown: int
    rules: int

    @classmethod
    def of(cls, verdicts: Sequence[Verdict]) -> Score:
        """The score that *verdicts* make."""
        kept = verdicts.count("kept")
        return cls(kept, kept + verdicts.count("broken"), len(verdicts))

    @property
    def full(self) -> bool:
        """Whether everything that showed was kept."""
        return self.kept == self.shown

    @property
    def share(self) -> str:
        """The percentage, rounded down: 100 % is nothing less."""
        return f"{100 * self.kept // self.shown}%" if self.shown else "-"

    def __str__(self) -> str:
        hidden = f"   ({self.rules - self.shown} not shown)" if self.rules > self.shown else ""
        return f"{self.kept:4} of {self.shown:4} {self.share:>5}{hidden}"

    def as_json(self) -> dict[str, int]:
        """As a JSON object."""
        return {"kept": self.kept, "shown": self.shown, "rules": self.rules}
