"""``python -m tests.faults --count 5000``: faults by chance against the proxy as it is served; the figures, as JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from typing import Any

from tests.faults import client_batch
from tests.faults.batch import Report, plan, run


def main() -> int:
    """The process's status: 1 where anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, metavar="N", help="exchanges to make (5000)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="what chance begins with (1)")
    parser.add_argument("--workers", type=int, default=16, metavar="W", help="exchanges at a time (16)")
    parser.add_argument("--only", type=int, metavar="I", help="one exchange of the batch, and what it consists of")
    parser.add_argument("--clients", action="store_true", help="clients that are hostile or unlucky, not upstreams")
    args = parser.parse_args()
    logging.disable()
    batch, describe = (client_batch.run, client_batch.plan) if args.clients else (run, plan)
    if args.only is not None:
        sys.stdout.write(f"{describe(f'{args.seed}/{args.only}')}\n")
    try:
        import uvloop
    except ImportError:
        report = asyncio.run(batch(args.count, args.seed, args.workers, args.only))
    else:
        report = uvloop.run(batch(args.count, args.seed, args.workers, args.only))
    figures = _clients(report) if isinstance(report, client_batch.Report) else _upstreams(report)
    figures |= {
        "MiB at first and after each quarter": [round(value, 1) for value in report.memory],
        "objects of the proxy before and after": report.objects,
        "findings": len(report.findings),
    }
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    for finding in report.findings[:50]:
        sys.stderr.write(finding + "\n")
    return 1 if report.findings else 0


def _upstreams(report: Report) -> dict[str, Any]:
    return {
        "exchanges": report.faults.total(),
        "faults injected": report.faults.total() - report.faults["none"],
        "of kinds": dict(report.faults.most_common()),
        "what clients saw": dict(report.outcomes.most_common()),
        "repeated on a new connection": report.repeated,
        "upstream connections": report.connections,
    }


def _clients(report: client_batch.Report) -> dict[str, Any]:
    return {
        "clients": report.clients.total(),
        "of kinds": dict(report.clients.most_common()),
        "answers held against what was asked": report.answers.total(),
        "of kinds of answers": dict(report.answers.most_common()),
    }


if __name__ == "__main__":
    sys.exit(main())
