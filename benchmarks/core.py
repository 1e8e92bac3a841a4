"""Measures the core alone: CPU time for each event of a stream, each request, its line in the log, each plain answer.

There is no I/O but that line's. Each shape is a stream as a server sends it, read by the normalizer and written by the
SSE writer; that the client gets all of its text is checked first. Figures are medians of interleaved repetitions. With
--save and --compare two commits are held against each other.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from time import process_time_ns
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))  # this tree, whatever is installed

from harness.machine import describe_commit
from harness.requests import request_works
from harness.shapes import SHAPES, WHOLE_ANSWER, Shape

from svir_proxy.client_request import ClientRequest
from svir_proxy.profiles import load_profile
from svir_proxy.response.completion import CompletionFolder
from svir_proxy.response.events import Failed, Finished
from svir_proxy.response.json_text import dumps
from svir_proxy.response.lifecycle import OUTPUT
from svir_proxy.response.normalizer import StreamNormalizer
from svir_proxy.response.sse_writer import SSEWriter

_PIECES: Final = 1000
_QUICK_PIECES: Final = 50
_ROUNDS: Final = 15
_QUICK_ROUNDS: Final = 2
_BEGINNING: Final = (*OUTPUT, Finished)

Work = Callable[[], object]


def main() -> int:
    """Measure and print."""
    args = _arguments()
    pieces, rounds = (_QUICK_PIECES, _QUICK_ROUNDS) if args.quick else (_PIECES, _ROUNDS)
    works: dict[str, tuple[str, Work, float]] = {}  # by name: what it is, the work, events or requests times the unit
    for name, shape in SHAPES.items():
        few = pieces // 10 if name == "byte-wise" else pieces
        works[name] = (shape.what, *_stream_work(shape, few))
    for name, each in request_works(pieces):
        works[name] = (each.what, each.work, each.times * 1000.0)
    works["answer"] = ("a plain answer", _answer_work(pieces), pieces * 1000.0)
    if args.only:
        works = {name: work for name, work in works.items() if args.only in name}
    figures = _measure({name: (work, scale) for name, (_, work, scale) in works.items()}, rounds)
    before = json.loads(args.compare.read_text()) if args.compare else None
    print(_table({name: what for name, (what, _, _) in works.items()}, figures, before))
    if args.save:
        args.save.write_text(json.dumps({"commit": describe_commit(), "figures": figures}, indent=1) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only show that it works: the figures mean little")
    parser.add_argument("--only", metavar="TEXT", help="the shapes and requests with TEXT in their name")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the figures")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="show ratios to the figures kept there")
    return parser.parse_args()


def _stream_work(shape: Shape, pieces: int) -> tuple[Work, float]:
    """Normalizing and writing one stream, and how many events it has."""
    events, text = shape.stream(pieces)
    reads = shape.cut(events)
    profile = load_profile(shape.profile)
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True, **shape.request}
    request = ClientRequest.from_body(body, id="b" * 24, received=1700000000)

    def work() -> list[bytes]:
        normalizer = StreamNormalizer(request, profile)
        writer = SSEWriter(request)
        out: list[bytes] = []
        for read in reads:
            written = b""
            for event in normalizer.receive_data(read):
                if not writer.is_open and isinstance(event, _BEGINNING):
                    written += writer.open()
                if isinstance(event, Failed):
                    raise event.error
                written += writer.write(event)
            if written:
                out.append(written)
        return out

    said = _said(b"".join(work()))
    if said != text:
        raise SystemExit(f"{shape.what}: the client got {said[:80]!r}, not {text[:80]!r}")
    return work, float(len(events))


def _said(stream: bytes) -> str:
    """All text of a written stream, reasoning and arguments too; ends the program where it is not whole."""
    *events, done, rest = stream.split(b"\n\n")
    if done != b"data: [DONE]" or rest:
        raise SystemExit(f"the stream does not end with [DONE]: {done!r}")
    said = ""
    for event in events:
        delta = json.loads(event.removeprefix(b"data: "))["choices"][0]["delta"]
        for value in delta.values():
            if isinstance(value, list):
                said += value[0]["function"]["arguments"]
        said += delta.get("content", "") + delta.get("reasoning_content", "")
    return said


def _answer_work(times: int) -> Work:
    """Reading one plain answer and writing it again, as often as makes it measurable."""
    profile = load_profile("openai")
    request = ClientRequest.from_body({"model": "m", "messages": [{"role": "user"}]}, id="b" * 24, received=1700000000)

    def work() -> None:
        for _ in range(times):
            normalizer = StreamNormalizer(request, profile)
            folder = CompletionFolder(request)
            for event in (*normalizer.receive_data(WHOLE_ANSWER), *normalizer.receive_eof(clean=True)):
                if isinstance(event, Failed):
                    raise event.error
                folder.feed(event)
            dumps(folder.completion())

    return work


def _measure(works: Mapping[str, tuple[Work, float]], rounds: int) -> dict[str, list[float]]:
    """Each work's CPU time divided by its scale, round by round."""
    figures: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, (work, scale) in works.items():
            begun = process_time_ns()
            work()
            figures[name].append((process_time_ns() - begun) / scale)
    return figures


def _table(what: Mapping[str, str], figures: Mapping[str, list[float]], before: dict[str, Any] | None) -> str:
    columns = ["median", "least", "a second"] + ([f"x {before['commit']}", "least x"] if before else [])
    units = "ns an event, us a request, a line or an answer"
    about = f"Python {platform.python_version()}, commit {describe_commit()}; {units}"
    lines = [about, "", "| work | what | " + " | ".join(columns) + " |", "| --- | --- |" + " --- |" * len(columns)]
    for name, values in figures.items():
        unit = 1e9 if name in SHAPES else 1e6
        cells = [name, what[name], _number(median(values)), _number(min(values)), _number(unit / median(values))]
        if before and (old := before["figures"].get(name)):
            cells += [f"{median(values) / median(old):.2f}", f"{min(values) / min(old):.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


if __name__ == "__main__":
    sys.exit(main())
