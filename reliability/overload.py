"""``python -m reliability.overload``: more requests than a server can answer, and more connections than there may be.

In front of a server of a known capacity stands the proxy, with and without a limit of requests. Status 1 where an
answer was wrong or lost, where a limit did not hold, or where the proxy did not give back what it had taken.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from reliability.figures import percentile, table
from reliability.load import PATIENCE, Load, Outcome
from reliability.proxy import Held, ProxyProcess, wait_for
from reliability.server import ModelServer

CAPACITY: Final = 8
SECONDS: Final = 0.1
"""The server: so many answers at a time, each in so many seconds."""
WAITING: Final = 16
"""Requests in line for it."""
CONNECTIONS: Final = 128
"""``server.max_connections`` in the last part."""
HOLD: Final = 0.5
"""Seconds that an answer takes there, so that all of the first are open when the others come."""
LOADS: Final = (1.0, 2.0, 4.0, 8.0, 1.0)
"""Times the capacity; the last shows that nothing of the storm is left."""
DESCRIPTORS: Final = 256
"""What the process may have open in that one: what macOS gives by default."""
MEMORY: Final = 8.0
"""MiB that a process may hold more after a storm than before: what the allocator keeps of the most it ever had."""
_LOOK: Final = 0.1


@dataclass(slots=True)
class Storm:
    """One load on a proxy, and what the proxy held before it, at the most during it, and after it."""

    load: float
    outcome: Outcome
    before: Held
    during: Held
    after: Held
    at_a_time: int
    findings: list[str] = field(default_factory=list)


async def with_limits(loads: Sequence[float], seconds: float, seed: int) -> list[Storm]:
    """Each of *loads* for *seconds*, on a proxy that gives the server what it can do."""
    limits = {"max_requests": CAPACITY, "max_waiting": WAITING}
    storms = await _storms(loads, seconds, seed, limits)
    for storm in storms:
        if storm.outcome.left:
            storm.findings.append(f"{storm.outcome.left} clients gave up")
        if storm.at_a_time > CAPACITY:
            storm.findings.append(f"the server had {storm.at_a_time} requests at a time")
        if storm.load > 2 and not storm.outcome.refused:
            storm.findings.append("nobody was refused")
        if (kept := storm.after.mib - storms[0].before.mib) > MEMORY:
            storm.findings.append(f"{kept:.1f} MiB were not given back")
    return storms


async def without_limits(loads: Sequence[float], seconds: float, seed: int) -> list[Storm]:
    """The same where everything goes on to the server."""
    return await _storms(loads, seconds, seed, {})


async def _storms(loads: Sequence[float], seconds: float, seed: int, limits: dict[str, int]) -> list[Storm]:
    storms: list[Storm] = []
    async with ModelServer(CAPACITY, SECONDS) as server, _proxy(server, limits, {}) as proxy:
        load, new = Load(proxy.port), proxy.holds()
        await load.offer(server.rate / 2, min(seconds, 2.0), seed)  # what is made once is made
        await _rest(proxy, server, load, new)
        for number, times in enumerate(loads):
            server.most = 0
            before = proxy.holds()
            async with _watched(proxy) as most:
                outcome = await load.offer(times * server.rate, seconds, seed + number)
            findings = [*outcome.problems, *await _rest(proxy, server, load, before)]
            storms.append(Storm(times, outcome, before, most[0], proxy.holds(), server.most, findings))
    return storms


@dataclass(slots=True)
class Crowd:
    """More connections than ``server.max_connections``: those that came first, those that came then, one afterwards."""

    first: Outcome
    more: Outcome
    then: Outcome
    before: Held
    during: Held
    after: Held
    findings: list[str] = field(default_factory=list)


async def crowd(connections: int = CONNECTIONS) -> Crowd:
    """Twice as many *connections* as there may be, each with a request, the later half while the first is answered."""
    async with ModelServer(connections, HOLD) as server, _proxy(server, {}, {"max_connections": connections}) as proxy:
        first, more, then = Load(proxy.port), Load(proxy.port), Load(proxy.port)
        before = proxy.holds()
        async with _watched(proxy) as most:
            asked = first.together(connections)
            await wait_for(lambda: server.running == connections)
            refused = more.examine(await asyncio.gather(*more.together(connections)))
            served = first.examine(await asyncio.gather(*asked))
        await first.close()
        await more.close()
        await wait_for(lambda: proxy.holds().fds <= before.fds + connections)  # kept to the server
        again = then.examine(await asyncio.gather(*then.together(1)))
        findings = [*served.problems, *refused.problems, *again.problems]
        findings += await _rest(proxy, server, then, before)
        if (kept := proxy.holds().mib - before.mib) > MEMORY:
            findings.append(f"{kept:.1f} MiB were not given back")
        for what, count, due in (
            ("of the first were served", len(served.served), connections),
            ("of the others were refused", len(refused.refused), connections),
            ("afterwards was served", len(again.served), 1),
        ):
            if count != due:
                findings.append(f"{count} {what}, not {due}")
        return Crowd(served, refused, again, before, most[0], proxy.holds(), findings)


async def scarcity(descriptors: int = DESCRIPTORS) -> Crowd:
    """As many connections at once as the proxy may have *descriptors*, and a few after them."""
    async with ModelServer(descriptors, HOLD) as server, _proxy(server, {}, {}, descriptors) as proxy:
        first, then = Load(proxy.port), Load(proxy.port)
        before = proxy.holds()
        async with _watched(proxy) as most:
            seen = first.examine(await asyncio.gather(*first.together(descriptors)))
        await first.close()
        await server.hang_up()
        await wait_for(lambda: proxy.holds().fds <= before.fds)
        again = then.examine(await asyncio.gather(*then.together(10)))
        # Some are hung up on unheard: to tell them would take a descriptor for each.
        findings = [text for text in seen.problems if " lost: " not in text] + again.problems
        findings += await _rest(proxy, server, then, before)
        for what, count, due in (
            ("were served", len(seen.served), descriptors // 8),
            ("were served or refused", len(seen.served) + len(seen.refused), descriptors // 4),
            ("were served afterwards", len(again.served), 10),
        ):
            if count < due:
                findings.append(f"{count} {what}, and {due} should have been")
        return Crowd(seen, Outcome(), again, before, most[0], proxy.holds(), findings)


@contextlib.asynccontextmanager
async def _proxy(
    server: ModelServer, limits: dict[str, int], connections: dict[str, int], descriptors: int | None = None
) -> AsyncIterator[ProxyProcess]:
    backend: dict[str, Any] = {"name": "one", "base_url": f"http://127.0.0.1:{server.port}", **limits}
    settings = {"server": connections, "logging": {"level": "warning"}, "backends": [backend]}
    with tempfile.TemporaryDirectory() as folder:
        async with ProxyProcess(settings, Path(folder), descriptors=descriptors) as proxy:
            yield proxy


@contextlib.asynccontextmanager
async def _watched(proxy: ProxyProcess) -> AsyncIterator[list[Held]]:
    """The most of everything that *proxy* holds until the end of the block, as a list of one."""
    most = [proxy.holds()]

    async def watch() -> None:
        while True:
            now = proxy.holds()
            most[0] = Held(max(most[0].mib, now.mib), max(most[0].fds, now.fds), now.cpu)
            await asyncio.sleep(_LOOK)

    task = asyncio.create_task(watch())
    try:
        yield most
    finally:
        task.cancel()


async def _rest(proxy: ProxyProcess, server: ModelServer, load: Load, before: Held) -> list[str]:
    """Close all connections from the outside, and see that *proxy* has closed its own; what it has not."""
    await load.close()
    await server.hang_up()
    with contextlib.suppress(TimeoutError):
        await wait_for(lambda: proxy.holds().fds <= before.fds)
    left = proxy.holds().fds - before.fds
    return [f"{left} descriptors were not given back"] if left > 0 else []


def _storms_table(storms: Sequence[Storm], seconds: float) -> str:
    rate = CAPACITY / SECONDS
    head = [
        "load", "asked/s", "answered/s", "of capacity", "503", "served in ms, p50 / p99", "refused in ms, p50 / p99",
        "gave up", "at the server, most", "wrong or lost", "MiB before / most / after", "descriptors",
    ]  # fmt: skip
    rows = []
    for storm in storms:
        out = storm.outcome
        rows.append(
            (
                f"{storm.load:g}x", out.asked / seconds, len(out.served) / out.elapsed,
                f"{len(out.served) / out.elapsed / rate:.0%}", f"{len(out.refused) / max(out.asked, 1):.0%}",
                _times(out.served), _times(out.refused), out.left, storm.at_a_time, len(out.problems),
                _mib(storm), _fds(storm),
            )
        )  # fmt: skip
    return table(head, rows)


def _crowd_table(seen: Crowd) -> str:
    rows = [
        (who, out.asked, len(out.served), len(out.refused), _times(out.served), _times(out.refused), len(out.problems))
        for who, out in (("the first", seen.first), ("those past the limit", seen.more), ("afterwards", seen.then))
        if out.asked
    ]
    head = ["connections", "asked", "served", "503", "served in ms, p50 / p99", "refused in ms, p50 / p99", "no answer"]
    return f"{table(head, rows)}\n\nMiB {_mib(seen)}, descriptors {_fds(seen)} (before / most / after)"


def _times(seconds: Sequence[float]) -> str | None:
    if not seconds:
        return None
    return f"{percentile(seconds, 0.5) * 1000:.0f} / {percentile(seconds, 0.99) * 1000:.0f}"


def _mib(seen: Storm | Crowd) -> str:
    return f"{seen.before.mib:.1f} / {seen.during.mib:.1f} / {seen.after.mib:.1f}"


def _fds(seen: Storm | Crowd) -> str:
    return f"{seen.before.fds} / {seen.during.fds} / {seen.after.fds}"


def main(argv: Sequence[str] | None = None) -> int:
    """The process's status."""
    parser = argparse.ArgumentParser(prog="python -m reliability.overload", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="how long each load lasts (10)")
    parser.add_argument("--loads", default=",".join(f"{load:g}" for load in LOADS), help="times the capacity")
    parser.add_argument("--connections", type=int, default=CONNECTIONS, metavar="N", help=f"({CONNECTIONS})")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="what chance begins with (1)")
    args = parser.parse_args(argv)
    loads = [float(load) for load in args.loads.split(",")]
    limited = asyncio.run(with_limits(loads, args.seconds, args.seed))
    print(f"## With max_requests: {CAPACITY}, max_waiting: {WAITING}\n\n{_storms_table(limited, args.seconds)}\n")
    unlimited = asyncio.run(without_limits(loads, args.seconds, args.seed))
    print(f"## Without\n\n{_storms_table(unlimited, args.seconds)}\n")
    seen = asyncio.run(crowd(args.connections))
    print(f"## Past max_connections: {args.connections}\n\n{_crowd_table(seen)}\n")
    scarce = asyncio.run(scarcity())
    print(f"## With {DESCRIPTORS} descriptors, and as many connections\n\n{_crowd_table(scarce)}\n")
    findings = [f"{storm.load:g}x: {text}" for storm in (*limited, *unlimited) for text in storm.findings]
    findings += [f"connections: {text}" for text in (*seen.findings, *scarce.findings)]
    print(f"{len(findings)} findings; clients gave up after {PATIENCE:g} s")
    for text in findings[:20]:
        print(text, file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
