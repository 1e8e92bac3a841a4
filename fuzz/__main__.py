"""The commands: ``python -m fuzz --help``."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path


def main() -> int:
    """Run one command; 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Fuzz svir-proxy; see fuzz/README.md.")
    commands = parser.add_subparsers(dest="command", required=True)
    cover = commands.add_parser("cover", help="guided by coverage (needs atheris)")
    cover.add_argument("--seconds", type=int, default=60, metavar="N", help="how long; 60")
    mutate = commands.add_parser("mutate", help="broken recordings, by number")
    mutate.add_argument("--inputs", type=int, default=10_000, metavar="N", help="how many; 10000")
    mutate.add_argument("--seed", type=int, default=0, metavar="N", help="the same seed makes the same inputs; 0")
    stretch = commands.add_parser("stretch", help="a part repeated, to find work that is more than linear")
    stretch.add_argument("--inputs", type=int, default=1000, metavar="N", help="how many shapes; 1000")
    stretch.add_argument("--seed", type=int, default=0, metavar="N", help="as for mutate; 0")
    exchange = commands.add_parser("exchange", help="broken responses through a running proxy")
    exchange.add_argument("--inputs", type=int, default=1000, metavar="N", help="how many; 1000")
    exchange.add_argument("--seed", type=int, default=0, metavar="N", help="as for mutate; 0")
    replay = commands.add_parser("replay", help="inputs once kept")
    for command in (cover, mutate, stretch, replay):
        command.add_argument("target", help="answer, request, http, error or models")
    for command in (cover, mutate, stretch, exchange):
        command.add_argument(
            "--folder", type=Path, default=Path(".fuzz"), help="where corpus and findings are kept; .fuzz"
        )
    replay.add_argument("files", nargs="+", type=Path, metavar="FILE", help="an input, or a folder of them")
    args, more = parser.parse_known_args()
    if more and args.command != "cover":
        parser.error(f"no such option: {more[0]}")
    run = {"cover": _cover, "mutate": _mutate, "stretch": _stretch, "exchange": _exchange, "replay": _replay}
    return run[args.command](args, more)


def _cover(args: argparse.Namespace, more: list[str]) -> int:
    from fuzz.cover import cover  # noqa: PLC0415 - it needs atheris and instruments what it imports

    cover(args.target, args.folder, args.seconds, more)
    return 0


def _mutate(args: argparse.Namespace, _: list[str]) -> int:
    from fuzz.mutate import mutate  # noqa: PLC0415 - after cover had its chance to instrument
    from fuzz.targets import TARGETS  # noqa: PLC0415 - the same

    return min(1, mutate(TARGETS[args.target], args.inputs, args.seed, args.folder / "found" / args.target))


def _stretch(args: argparse.Namespace, _: list[str]) -> int:
    from fuzz.stretch import stretch  # noqa: PLC0415 - the same

    return min(1, stretch(args.target, args.inputs, args.seed, args.folder / "found" / args.target))


def _exchange(args: argparse.Namespace, _: list[str]) -> int:
    from fuzz.exchange import exchange  # noqa: PLC0415 - the same

    return min(1, asyncio.run(exchange(args.inputs, args.seed, args.folder / "found" / "exchange")))


def _replay(args: argparse.Namespace, _: list[str]) -> int:
    from fuzz.mutate import attempt  # noqa: PLC0415 - after cover had its chance to instrument
    from fuzz.targets import TARGETS  # noqa: PLC0415 - the same

    files = [file for path in args.files for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    broken = {file: where for file in files if (where := attempt(TARGETS[args.target], file.read_bytes()))}
    for file, where in broken.items():
        print(f"{file}: {where}")
    print(f"{len(files)} inputs, {len(broken)} findings")
    return min(1, len(broken))


if __name__ == "__main__":
    sys.exit(main())
