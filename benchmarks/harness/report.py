"""Raw results to Markdown: medians, spread, ratios to nginx, and the goals with what became of them.

A ratio is that of two medians. Its spread is that of the ratios inside each repetition: what runs right after each
other sees the same machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from harness.scenarios import IDLE, SCENARIOS
from harness.targets import DIRECT, REFERENCE, SVIR

Run = Mapping[str, Any]
Values = Mapping[int, float]
"""One figure by repetition."""

_NONE: Final = "-"


@dataclass(frozen=True, slots=True)
class Figure:
    """A median with its spread."""

    value: float
    low: float
    high: float

    def text(self, digits: int) -> str:
        """``12.3 (11.9-13.0)``, or ``12.3`` where there is no spread to see."""
        value, low, high = (f"{number:.{digits}f}" for number in (self.value, self.low, self.high))
        return value if low == high else f"{value} ({low}-{high})"


class Results:
    """The runs of one batch."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = list(runs)

    @property
    def targets(self) -> list[str]:
        """In the order of their first run."""
        return list(dict.fromkeys(run["target"] for run in self._runs))

    @property
    def scenarios(self) -> list[str]:
        """In the order of their first run."""
        return list(dict.fromkeys(run["scenario"] for run in self._runs))

    @property
    def repetitions(self) -> int:
        """How often each was run."""
        return len({run["repetition"] for run in self._runs})

    def values(self, target: str, scenario: str, key: str) -> Values:
        """One figure of a target; *key* may lead into an object: ``first_us.p50``."""
        found: dict[int, float] = {}
        for run in self._runs:
            if (run["target"], run["scenario"]) == (target, scenario):
                value: Any = run
                for part in key.split("."):
                    value = value.get(part) if isinstance(value, Mapping) else None
                if value is not None:
                    found[run["repetition"]] = value
        return found

    def figure(self, target: str, scenario: str, key: str, scale: float = 1.0) -> Figure | None:
        """Its median over the repetitions."""
        return _figure([value * scale for value in self.values(target, scenario, key).values()])

    def ratio(self, over: Values, under: Values) -> Figure | None:
        """The ratio of two medians, with the spread of the pairs."""
        pairs = [over[i] / under[i] for i in over.keys() & under.keys()]
        if not pairs:
            return None
        return Figure(median(over.values()) / median(under.values()), min(pairs), max(pairs))

    def difference(self, over: Values, under: Values, scale: float) -> Figure | None:
        """The difference of two medians, with the spread of the pairs."""
        pairs = [(over[i] - under[i]) * scale for i in over.keys() & under.keys()]
        if not pairs:
            return None
        return Figure((median(over.values()) - median(under.values())) * scale, min(pairs), max(pairs))

    def lost(self, target: str, scenario: str) -> int:
        """Answers that were not whole."""
        keys = ("bad_status", "broken", "unfinished")
        return int(sum(sum(self.values(target, scenario, key).values()) for key in keys))


def _figure(values: Sequence[float]) -> Figure | None:
    return Figure(median(values), min(values), max(values)) if values else None


def cpu_key(scenario: str) -> str:
    """What the CPU time of a scenario is divided by."""
    return "cpu_us_per_piece" if SCENARIOS[scenario].stream else "cpu_ms_per_answer"


def _cpu_ratio(results: Results, target: str, scenario: str, reference: str = REFERENCE) -> Figure | None:
    key = cpu_key(scenario)
    return results.ratio(results.values(target, scenario, key), results.values(reference, scenario, key))


def _added_ms(results: Results, target: str) -> Figure | None:
    key = "first_us.p50"
    return results.difference(results.values(target, "paced1", key), results.values(DIRECT, "paced1", key), 1e-3)


def _crowded(results: Results, target: str) -> Figure | None:
    key = "cpu_ms_per_answer"
    return results.ratio(results.values(target, "json256", key), results.values(target, "json", key))


def _lost(results: Results, target: str) -> Figure | None:
    if not results.values(target, "paced1000", "ok"):
        return None
    lost = results.lost(target, "paced1000")
    return Figure(lost, lost, lost)


@dataclass(frozen=True, slots=True)
class Goal:
    """A measure with the most it must and the most it should be, and the targets it is for."""

    measure: str
    unit: str
    must: float
    aim: float
    digits: int
    figure: Callable[[Results, str], Figure | None]
    targets: tuple[str, ...] = tuple(SVIR)


GOALS: Final = (
    Goal("CPU per event, `paced`", " x nginx", 2.5, 2.0, 2, lambda r, t: _cpu_ratio(r, t, "paced")),
    Goal("CPU per event, `burst`", " x nginx", 4, 2.5, 2, lambda r, t: _cpu_ratio(r, t, "burst")),
    Goal("CPU per answer, `json`", " x nginx", 8, 5, 2, lambda r, t: _cpu_ratio(r, t, "json"), ("svir_openai",)),
    Goal("added time to the first event, one connection, p50", " ms", 0.6, 0.4, 2, _added_ms),
    Goal("cost of a plain answer, 256 against 16 connections", " x", 1.3, 1.1, 2, _crowded),
    Goal("1000 streams: lost", "", 0, 0, 0, _lost),
    Goal("1000 streams: memory", " MiB", 80, 60, 0, lambda r, t: r.figure(t, "paced1000", "rss_kb_max", 1 / 1024)),
    Goal("memory, idle", " MiB", 60, 40, 0, lambda r, t: r.figure(t, IDLE, "rss_mib")),
    Goal("time to `listening`", " s", 1, 0.4, 2, lambda r, t: r.figure(t, IDLE, "start_s")),
)
_PEER_MUST: Final = 1.25
_PEER_AIM: Final = 1.0


def _peer_goals(results: Results) -> Iterable[Goal]:
    """CPU per event against each router that was measured."""
    for name in results.targets:
        if name not in (DIRECT, REFERENCE, *SVIR):

            def figure(results: Results, target: str, name: str = name) -> Figure | None:
                return _cpu_ratio(results, target, "paced", name)

            yield Goal(f"CPU per event, `paced`, against {name}", f" x {name}", _PEER_MUST, _PEER_AIM, 2, figure)


def goals_table(results: Results) -> str:
    """The goals, and what became of them."""
    lines = ["| measure | must | aim | " + " | ".join(SVIR) + " |", "| --- | --- | --- |" + " --- |" * len(SVIR)]
    for goal in (*GOALS, *_peer_goals(results)):
        cells = [_verdict(goal, goal.figure(results, t)) if t in goal.targets else _NONE for t in SVIR]
        limits = [f"<= {limit:g}{goal.unit}" for limit in (goal.must, goal.aim)]
        lines.append("| " + " | ".join([goal.measure, *limits, *cells]) + " |")
    return "\n".join(lines)


def _verdict(goal: Goal, figure: Figure | None) -> str:
    if figure is None:
        return "not measured"
    text = figure.text(goal.digits)
    if figure.value <= goal.aim:
        return f"{text}: pass, aim reached"
    return f"{text}: pass" if figure.value <= goal.must else f"{text}: **FAIL**"


def scenario_table(results: Results, scenario: str) -> str:
    """One scenario, a line a target."""
    streams = SCENARIOS[scenario].stream
    digits = 1 if streams else 3
    unit = "us/event" if streams else "ms/answer"
    columns = [f"CPU {unit} (min-max)", "x nginx (min-max)", "answers/s", "first event p50/p99 ms"]
    columns += ["event latency p50/p99 ms"] if streams else []
    columns += ["MiB", "lost", "rewritten"] if streams else ["MiB", "lost"]
    lines = ["| target | " + " | ".join(columns) + " |", "| --- |" + " --- |" * len(columns)]
    for target in results.targets:
        values = results.values(target, scenario, "ok")
        if not values:
            continue
        cpu = results.figure(target, scenario, cpu_key(scenario))
        ratio = _cpu_ratio(results, target, scenario)
        elapsed = results.values(target, scenario, "elapsed_s")
        rate = median(values[i] / elapsed[i] for i in values)
        memory = results.figure(target, scenario, "rss_kb_max", 1 / 1024)
        cells = [cpu.text(digits) if cpu else _NONE, ratio.text(2) if ratio else _NONE, f"{rate:.0f}"]
        cells.append(_quantiles(results, target, scenario, "first_us", 2))
        if streams:
            cells.append(_quantiles(results, target, scenario, "piece_us", 3))
        cells += [f"{memory.value:.0f}" if memory and memory.value else _NONE, str(results.lost(target, scenario))]
        if streams:
            untouched = sum(results.values(target, scenario, "untouched").values())
            cells.append("no" if untouched else "yes")
        lines.append("| " + " | ".join([target, *cells]) + " |")
    return "\n".join(lines)


def _quantiles(results: Results, target: str, scenario: str, key: str, digits: int) -> str:
    figures = [results.figure(target, scenario, f"{key}.{quantile}", 1e-3) for quantile in ("p50", "p99")]
    return "/".join(f"{figure.value:.{digits}f}" if figure else _NONE for figure in figures)


def idle_table(results: Results) -> str:
    """Memory before the first request, and how long starting takes."""
    lines = ["| target | MiB (min-max) | ready after s (min-max) |", "| --- | --- | --- |"]
    for target in results.targets:
        memory, start = results.figure(target, IDLE, "rss_mib"), results.figure(target, IDLE, "start_s")
        if memory and start:
            lines.append(f"| {target} | {memory.text(0)} | {start.text(2)} |")
    return "\n".join(lines)


def report(machine: Mapping[str, str], runs: Sequence[Run]) -> str:
    """The whole page."""
    results = Results(runs)
    loads = [run["load"] for run in runs]
    about = dict(machine)
    if loads:
        about["load average"] = f"{min(loads):.1f}-{max(loads):.1f} (the benchmark itself makes about 1)"
    about["repetitions"] = str(results.repetitions)
    parts = ["\n".join(f"- {name}: {value}" for name, value in about.items())]
    parts += ["## Goals", goals_table(results)]
    for scenario in results.scenarios:
        if scenario == IDLE:
            parts += [f"## {IDLE}: started and left alone", idle_table(results)]
        else:
            parts += [f"## {scenario}: {SCENARIOS[scenario].what}", scenario_table(results, scenario)]
    return "\n\n".join(parts)
