"""Measures the proxy against nginx and against the upstream without a proxy; prints Markdown.

Each repetition runs each scenario on each target, one right after the other and in another order every time; only
figures of one such batch are compared. Everything is on 127.0.0.1, and everything started is stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness.machine import describe_machine
from harness.processes import BenchmarkError, Running, build, generate_load, raise_file_limit
from harness.report import report
from harness.scenarios import IDLE, LONG, SCENARIOS, Scenario
from harness.targets import DIRECT, PROBE, REFERENCE, SVIR, Launcher, Target, installed_peers, nginx, peer, svir

_NEEDED = "import orjson, uvicorn, httpx, pydantic_settings, yaml, jsonschema, starlette"


def main() -> int:
    """Run the benchmark; 1 where it cannot, 2 where an answer was not whole."""
    args = _arguments()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # also where a shell started it with them ignored
        signal.signal(number, lambda *_: sys.exit("stopped"))
    try:
        _check_python(args.python)
        machine = describe_machine(args.python)
        runs = _run(args)
    except BenchmarkError as exc:
        print(exc, file=sys.stderr)
        return 1
    if args.json:
        args.json.write_text(json.dumps({"machine": machine, "runs": runs}, indent=1) + "\n")
    print(report(machine, runs))
    return 2 if any(_lost(run) for run in runs) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"one short repetition, without {LONG}")
    parser.add_argument("--repetitions", type=int, metavar="N", help="how often each is run; 3, with --quick 1")
    parser.add_argument(
        "--scenarios", metavar="A,B,..", default="", help=f"of {', '.join(SCENARIOS)}, {IDLE}; all unless named"
    )
    parser.add_argument(
        "--peer", action="append", default=[], metavar="NAME=COMMAND",
        help="another proxy; {port} and {upstream} stand for the ports; smg and vllm-router need only their program's "
        "path, and none where they are on the path",
    )  # fmt: skip
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs the proxy; this one")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the raw results")
    parser.add_argument("--report", type=Path, metavar="FILE", help="run nothing: print what --json kept")
    args = parser.parse_args()
    if args.report:
        kept = json.loads(args.report.read_text())
        print(report(kept["machine"], kept["runs"]))
        parser.exit()
    known = (*SCENARIOS, IDLE)
    args.scenarios = (
        args.scenarios.split(",") if args.scenarios else [n for n in known if not (args.quick and n == LONG)]
    )
    if unknown := set(args.scenarios) - set(known):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    args.repetitions = args.repetitions or (1 if args.quick else 3)
    return args


def _check_python(python: str) -> None:
    try:
        subprocess.run([python, "-c", _NEEDED], capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as exc:
        reason = exc.stderr.strip().rpartition("\n")[2]
    except OSError as exc:
        reason = exc.strerror or str(exc)
    else:
        return
    raise BenchmarkError(f"{python} cannot run the proxy ({reason}): pip install -e . there, or name one with --python")


def _run(args: argparse.Namespace) -> list[dict[str, Any]]:
    raise_file_limit()
    with tempfile.TemporaryDirectory(prefix="svir-benchmark-") as name, ExitStack() as stack:
        folder = Path(name)
        build("loadgen")
        models = ",".join(sorted({scenario.model for scenario in SCENARIOS.values()} | {PROBE}))
        upstream = Running([build("upstream"), "--models", models], folder / "upstream.log")
        stack.callback(upstream.stop)
        port = int(upstream.wait_for_line("listening on", seconds=5).rpartition(":")[2])
        targets = _targets(args, folder, port)
        for target in targets:
            stack.callback(target.stop)
            target.start()
            target.wait_until_it_answers()
            _tell(f"{target.name}: ready")
        runs = []
        for run in _batch(args, targets, _targets(args, folder / "idle", port)):
            runs.append(run)
            _tell(_line(run))
        return runs


def _targets(args: argparse.Namespace, folder: Path, upstream: int) -> list[Target]:
    folder.mkdir(exist_ok=True)
    launchers: dict[str, Launcher | None] = {DIRECT: None, REFERENCE: nginx}
    launchers |= {name: svir(profile, args.python) for name, profile in SVIR.items()}
    launchers |= {name: peer(name, command) for name, command in _peers(args.peer).items()}
    return [Target(name, launcher, folder, upstream) for name, launcher in launchers.items()]


def _peers(given: Sequence[str]) -> dict[str, str]:
    peers = installed_peers()
    for text in given:
        name, equals, command = text.partition("=")
        if not equals or not command or name in (DIRECT, REFERENCE, *SVIR):
            raise BenchmarkError(f"--peer {text}: NAME=COMMAND, with a name of its own")
        peers[name] = command
    return peers


def _batch(args: argparse.Namespace, targets: Sequence[Target], fresh: Sequence[Target]) -> Iterator[dict[str, Any]]:
    """The runs, interleaved; *fresh* are targets to start only to see them idle."""
    for repetition in range(args.repetitions):
        for name in args.scenarios:
            candidates = [target for target in fresh if target.is_process] if name == IDLE else targets
            first = repetition % len(candidates)
            for target in (*candidates[first:], *candidates[:first]):
                if name == IDLE:
                    result = _see_idle(target)
                else:
                    scenario = SCENARIOS[name].shortened() if args.quick else SCENARIOS[name]
                    result = _load(target, scenario)
                yield {
                    "scenario": name,
                    "target": target.name,
                    "repetition": repetition,
                    "load": round(os.getloadavg()[0], 2),
                    **result,
                }


def _load(target: Target, scenario: Scenario) -> dict[str, Any]:
    return generate_load(target.port, scenario, target.headers, target.pids())


def _see_idle(target: Target) -> dict[str, Any]:
    try:
        target.start()
        time.sleep(0.5)  # what it still does after it is ready
        return {"start_s": round(target.start_seconds, 3), "rss_mib": round(target.rss_mib(), 1)}
    finally:
        target.stop()


def _lost(run: dict[str, Any]) -> int:
    return int(run.get("bad_status", 0) + run.get("broken", 0) + run.get("unfinished", 0))


def _line(run: dict[str, Any]) -> str:
    shown = ("start_s", "rss_mib", "cpu_us_per_piece", "cpu_ms_per_answer", "ok")
    figures = [f"{key} {run[key]}" for key in shown if key in run]
    if lost := _lost(run):
        figures.append(f"LOST {lost} {run.get('first_bad', '')[:200]}")
    return f"{run['repetition']} {run['scenario']:9} {run['target']:11} {', '.join(figures)}"


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
