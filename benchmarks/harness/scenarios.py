"""The loads that are measured. The names are those of the goals table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class Scenario:
    """One load: *requests* measured ones after *warmup* others, over so many *connections*.

    The upstream answers each with *pieces* pieces of text, one every *pace_us* microseconds, 0: as fast as it can. The
    connections begin within *ramp_ms* milliseconds.
    """

    name: str
    what: str
    connections: int
    requests: int
    warmup: int
    stream: bool = True
    pieces: int = 1
    pace_us: int = 0
    ramp_ms: int = 0

    @property
    def model(self) -> str:
        """The model's name, by which the upstream knows what to answer."""
        return f"m-{self.pieces}-{self.pace_us}-vllm"

    def arguments(self) -> list[str]:
        """The options of the load generator."""
        numbers = {
            "connections": self.connections,
            "requests": self.requests,
            "warmup": self.warmup,
            "ramp-ms": self.ramp_ms,
        }
        options = [part for name, number in numbers.items() for part in (f"--{name}", str(number))]
        return [*options, "--model", self.model, *(["--stream"] if self.stream else [])]

    def shortened(self) -> Scenario:
        """The same load for a shorter time."""
        return replace(self, requests=max(self.requests // 4, self.connections), warmup=self.warmup // 2)


_ALL: Final = (
    Scenario("paced", "32 streams, an event each 20 ms", 32, 96, 32, pieces=50, pace_us=20_000, ramp_ms=20),
    Scenario("burst", "16 streams as fast as they go", 16, 1500, 64, pieces=100),
    Scenario("json", "plain answers, 16 connections", 16, 8000, 400, stream=False),
    Scenario("json256", "plain answers, 256 connections", 256, 8000, 600, stream=False),
    Scenario("paced1", "one stream at a time", 1, 40, 5, pieces=10, pace_us=5_000),
    Scenario("paced1000", "1000 streams, an event a second", 1000, 1000, 0, pieces=8, pace_us=1_000_000, ramp_ms=4000),
)

SCENARIOS: Final = {scenario.name: scenario for scenario in _ALL}
IDLE: Final = "idle"
"""Starting and doing nothing, which is measured beside the scenarios."""
LONG: Final = "paced1000"
"""What ``--quick`` leaves out."""
