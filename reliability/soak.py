"""``python -m reliability.soak --minutes 10``: everything at once, for long, while one looks at what the proxy holds.

Status 1 where an answer was wrong or lost, where memory, descriptors or tasks grew, or where anything was not given
back once the clients had gone.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Final

from reliability.figures import table
from reliability.proxy import Held, Inside, ProxyProcess, wait_for
from reliability.traffic import NOTICED, SoakUpstream, Traffic, settings

SAMPLE: Final = 10.0
"""Seconds between two looks at the process."""
RELOAD: Final = 30.0
"""Seconds between two reloads."""
LONG_ENOUGH: Final = 4 * 60.0
"""Seconds that a run must take for its quarters to be compared."""
MEMORY: Final = 0.08
"""How much more memory the last quarter may take than the second, as a share of it."""
COUNTS: Final = 0.25
"""The same for descriptors and tasks, which are as many as exchanges under way by chance."""
_FEW: Final = 5
OBJECTS: Final = 100
"""Objects of the proxy's own classes that there may be more at rest than when it was warm."""
WARM_UP: Final = 20.0
"""Seconds of traffic before anything is measured, where the run is long enough."""
WORKERS: Final = 64
"""Clients."""
STILL: Final = 2.0
"""Seconds that everything was held up for where the machine stood still, as virtual machines do now and then."""
_TICK: Final = 0.1
_REST: Final = 0.25
_LOOKS: Final = 120
"""Seconds between two looks at a process that comes to rest, and how many of them."""
_RELOADED: Final = "the configuration was reloaded"
_KEPT: Final = "the configuration was not reloaded"


_NOTHING: Final = (Held(0, 0, 0), Inside(0))


@dataclass(frozen=True, slots=True)
class Sample:
    """The process at a moment: seconds since the start, and exchanges made by then."""

    at: float
    exchanges: int
    held: Held
    inside: Inside


@dataclass(slots=True)
class Report:
    """What a run came to.

    Attributes:
        fresh: What the process held before any traffic.
        idle: The same after a first while of it, when there is none.
        rest: The same when it is over.
        seconds: How long the traffic lasted.
        driver: CPU seconds of clients, upstream and judge.
        held_up: The most seconds that they were held up for.
        samples: In order.
        reloads: Those with a good file, and those with a file that is wrong.
        findings: A line each; in the end those of the traffic are among them.
    """

    traffic: Traffic
    fresh: tuple[Held, Inside]
    idle: tuple[Held, Inside] = _NOTHING
    rest: tuple[Held, Inside] = _NOTHING
    seconds: float = 0
    driver: float = 0
    held_up: float = 0
    samples: list[Sample] = field(default_factory=list)
    reloads: list[int] = field(default_factory=lambda: [0, 0])
    findings: list[str] = field(default_factory=list)

    def quarter(self, number: int) -> list[Sample]:
        """The samples of a quarter of the time, 0 to 3."""
        length = self.seconds / 4
        return [sample for sample in self.samples if number * length <= sample.at < (number + 1) * length]


MEASURES: Final[dict[str, tuple[Callable[[Sample], float], float, float]]] = {
    "MiB": (lambda sample: sample.held.mib, MEMORY, 0),
    "descriptors": (lambda sample: sample.held.fds, COUNTS, _FEW),
    "tasks": (lambda sample: sample.inside.tasks, COUNTS, _FEW),
}
"""What is measured: where it is, the share it may grow by, and the least that it may grow by."""


async def soak(seconds: float, seed: int, rate: float, workers: int = WORKERS) -> Report:
    """Run traffic of *seed* for *seconds*, up to *rate* exchanges a second, up to *workers* at a time."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            SoakUpstream() as upstream,
            ProxyProcess(settings(upstream.port), Path(folder), windowed=True) as proxy,
        ):
            report = Report(Traffic(proxy.port, upstream, seed), fresh=await _look(proxy))
            numbers = itertools.count()
            pause = workers / rate

            async def traffic(until: float) -> None:
                await asyncio.gather(*(report.traffic.work(numbers, pause, until) for _ in range(workers)))
                await upstream.hang_up()

            loop = asyncio.get_running_loop()
            ticking = asyncio.create_task(_tick(report))
            if seconds >= LONG_ENOUGH:
                await traffic(loop.time() + WARM_UP)  # what is made once is made
            report.idle = await _come_to_rest(proxy, report)
            start, cpu = loop.time(), time.process_time()
            beside = [
                ticking,
                asyncio.create_task(_watch(proxy, report, min(SAMPLE, seconds / 8))),
                asyncio.create_task(_reload(proxy, report, min(RELOAD, seconds / 4))),
            ]
            await traffic(start + seconds)
            report.seconds, report.driver = loop.time() - start, time.process_time() - cpu
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
            report.findings += [repr(task.exception()) for task in beside if not task.cancelled()]
            report.rest = await _come_to_rest(proxy, report)
            report.findings += report.traffic.findings
            report.findings += report.traffic.strays()
            report.findings += [f"logged: {line}" for line in proxy.log.splitlines() if line.startswith("Traceback")]
            report.findings += _growth(report)
            return report


async def _look(proxy: ProxyProcess) -> tuple[Held, Inside]:
    inside = await proxy.look_inside(count=True)
    return proxy.holds(), inside


async def _watch(proxy: ProxyProcess, report: Report, interval: float) -> None:
    start = time.monotonic()
    while True:
        await asyncio.sleep(interval)
        inside = await proxy.look_inside()
        made = report.traffic.made.total()
        report.samples.append(Sample(time.monotonic() - start, made, proxy.holds(), inside))


async def _tick(report: Report) -> None:
    while True:
        due = time.monotonic() + _TICK
        await asyncio.sleep(_TICK)
        late = time.monotonic() - due
        report.held_up = max(report.held_up, late)
        if late > STILL:
            report.traffic.stood_still.append(asyncio.get_running_loop().time())


async def _reload(proxy: ProxyProcess, report: Report, interval: float) -> None:
    """Other settings and the first ones again, by turns; each third file is wrong, and changes nothing."""
    port = report.traffic.upstream.port
    for number in itertools.count(1):
        await asyncio.sleep(interval)
        wrong = number % 3 == 0
        proxy.write("backends: [{" if wrong else json.dumps(settings(port, other=number % 2 > 0)))
        expected, since = _KEPT if wrong else _RELOADED, proxy.log_size
        began = asyncio.get_running_loop().time()
        proxy.reload()
        report.reloads[wrong] += 1
        try:
            await wait_for(partial(_says, proxy, since, expected))
        except TimeoutError:
            await asyncio.sleep(NOTICED)
            if not report.traffic.is_untold(began, asyncio.get_running_loop().time()):
                report.findings.append(f"after reload {number} the log does not say that {expected}")


def _says(proxy: ProxyProcess, since: int, text: str) -> bool:
    return text in proxy.log_from(since)


async def _come_to_rest(proxy: ProxyProcess, report: Report) -> tuple[Held, Inside]:
    """Wait until the process has as few descriptors and tasks as before any traffic; what is left is a finding."""
    fresh, now = report.fresh, await _look(proxy)
    for _ in range(_LOOKS):
        if now[0].fds <= fresh[0].fds and now[1].tasks <= fresh[1].tasks:
            return now
        await asyncio.sleep(_REST)
        now = await _look(proxy)
    report.findings.append(
        f"at rest {now[0].fds} descriptors and {now[1].tasks} tasks, {fresh[0].fds} and {fresh[1].tasks} at first"
    )
    return now


def _growth(report: Report) -> list[str]:
    """What the last quarter has more of than the second, beyond what may be."""
    if report.seconds < LONG_ENOUGH:
        return []
    found = []
    for name, (measure, share, least) in MEASURES.items():
        early, late = (median(map(measure, report.quarter(number))) for number in (1, 3))
        if late > early + max(early * share, least):
            found.append(f"{name} grew from {early:.1f} to {late:.1f}")
    more = _more(report)
    if more.total() > OBJECTS:
        found.append(f"{more.total()} more objects of the proxy's classes: {_counts(more)}")
    return found


def _more(report: Report) -> Counter[str]:
    """Objects of each of the proxy's classes that there are more at rest than when it was warm."""
    more = Counter(report.rest[1].mine)
    more.subtract(report.idle[1].mine)
    return Counter({name: count for name, count in more.items() if count})


def _quarters(report: Report) -> str:
    rows, before = [], 0
    for number in range(4):
        samples = report.quarter(number)
        if samples:
            made, before = samples[-1].exchanges - before, samples[-1].exchanges
            rows.append(
                (number + 1, made, *(_spread(map(measure, samples)) for measure, *_ in MEASURES.values()), None, None)
            )
    rests = [
        (when, None, f"{held.mib:.1f}", held.fds, inside.tasks, sum(inside.mine.values()), inside.all)
        for when, (held, inside) in (("started", report.fresh), ("warm", report.idle), ("after", report.rest))
    ]
    rows = [*rests[:2], *rows, rests[2]]
    return table(
        [
            "quarter",
            "exchanges",
            *(f"{name}, median (least-most)" for name in MEASURES),
            "objects of its classes",
            "in all",
        ],
        rows,
    )


def _spread(values: Iterable[float]) -> str:
    found = list(values)
    return f"{median(found):.1f} ({min(found):.1f}-{max(found):.1f})"


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def _words(report: Report) -> str:
    traffic = report.traffic
    more = ", ".join(f"{name} {count:+}" for name, count in _more(report).most_common())
    cpu = report.rest[0].cpu - report.idle[0].cpu
    total = traffic.made.total()
    return "\n".join(
        (
            f"{total} exchanges in {report.seconds:.0f} s: {_counts(traffic.made)}",
            f"{traffic.faults.total()} faults of the upstream: {_counts(traffic.faults)}",
            f"clients saw: {_counts(traffic.saw)}",
            f"asked again over a new connection: {traffic.repeated}",
            f"reloads: {report.reloads[0]}, and {report.reloads[1]} with a file that is wrong",
            f"CPU of a core: the proxy {cpu / report.seconds:.0%}, the others {report.driver / report.seconds:.0%}",
            f"objects at rest, against when it was warm: {more or 'the same'}",
            f"the longest that the machine stood still: {report.held_up:.1f} s; not judged for it: {traffic.untold}",
        )
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The process's status."""
    parser = argparse.ArgumentParser(prog="python -m reliability.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, metavar="M", help="how long (10)")
    parser.add_argument("--rate", type=float, default=100.0, metavar="R", help="the most exchanges a second (100)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="what chance begins with (1)")
    args = parser.parse_args(argv)
    run = asyncio.run if find_spec("uvloop") is None else import_module("uvloop").run
    report: Report = run(soak(args.minutes * 60, args.seed, args.rate))
    print(f"{_quarters(report)}\n\n{_words(report)}\n")
    if report.seconds < LONG_ENOUGH:
        print(f"too short to tell growth; that takes {LONG_ENOUGH / 60:g} minutes")
    print(f"{len(report.findings)} findings")
    for text in report.findings[:50]:
        print(text, file=sys.stderr)
    return 1 if report.findings else 0


if __name__ == "__main__":
    logging.disable()
    sys.exit(main())
