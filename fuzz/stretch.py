"""Looks for work that grows faster than its input: one part of a recording is repeated, and the clock is read.

A test counts work, as it must give the same answer everywhere (tests/response/test_bounds.py); a search over thousands
of shapes may use the clock, because it measures again whatever looks suspicious. What it confirms becomes a test.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

from fuzz.controls import SIZE, Controls
from fuzz.targets import TARGETS
from fuzz.targets.circumstances import PROFILES, REQUESTS
from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.request import rewrite_request
from svir_proxy.request.retry import learn_from
from svir_proxy.response.completion import CompletionFolder
from svir_proxy.response.json_text import dumps
from svir_proxy.response.model_list import read_model_list
from svir_proxy.response.normalizer import StreamNormalizer
from svir_proxy.response.sse_writer import SSEWriter
from svir_proxy.response.upstream_error import ErrorReader
from svir_proxy.server.transport.limits import TransportLimits
from svir_proxy.server.transport.parser import ResponseParser

_SIZES: Final = (1 << 17, 1 << 20)
"""Bytes of the two inputs that are compared."""
_STEEPER: Final = 24.0
"""How many times longer eight times the input may take: 8 is linear, 64 quadratic."""
_CONFIRMED: Final = 9.0
"""How many times longer four times the input may take, measured again where the collector's turns no longer show."""
_SHORTEST: Final = 0.02
"""Seconds below which the clock says nothing."""
_LONG: Final = 0.5
"""Seconds that need no longer input to be sure of."""
_READ: Final = 1 << 10
"""Bytes of one read of the socket."""
_MARKS: Final = [
    "<", "</", "<think>", "</think>", "<tool_call>", "<function=look>", "<parameter=a>", "[TOOL_CALLS]", "[", "{", "}",
    '{"', "(", "```", "<|channel|>", "<|", "\\", '"', " ", "\n", "a", "1", "a.", "a:", "-", "é", "\ud83d", "again in ",
    "://", "http://a:b", "bearer ", "sk-", "is not supported", "context", "'x' ", "<|tool_call>", "functions.look:0",
    "<start_function_call>", "look(", ",", "$", "word ", "<a>", "&lt;", "%", "data:", ": ", "event: error", "null",
    "[DONE]",
]  # fmt: skip
_STRING: Final = re.compile(rb'"(?:(?>[^"\\]|\\.))*+"')


def stretch(name: str, count: int, seed: int, findings: Path) -> int:
    """Try *count* shapes; the number of those whose work is steeper than linear, which are kept."""
    seeds = [data for data in TARGETS[name].seeds() if SIZE < len(data) < 1 << 14]
    run, found, began = _RUNS[name], 0, time.monotonic()
    for number in range(count):
        random = Random(f"{seed}/{number}")
        data = random.choice(seeds)
        grown, what = _grown(random, data[SIZE:])
        controls = data[:SIZE]
        if random.randrange(2):
            controls = random.randbytes(2) + controls[2:]
        small, large = (_seconds(run, controls, grown(size)) for size in _SIZES)
        if large < max(_SHORTEST, _STEEPER * small):
            continue
        size = _SIZES[1] * (1 if large > _LONG else 2)
        large, largest = (_seconds(run, controls, grown(size * times)) for times in (1, 4))
        if largest < _CONFIRMED * large:
            continue
        found += 1
        findings.mkdir(parents=True, exist_ok=True)
        (findings / f"steep-{seed}-{number}").write_bytes(controls + grown(1 << 14))
        print(f"shape {number}: {large:.2f} s, four times the bytes: {largest:.2f} s; {what}", flush=True)
    seconds = time.monotonic() - began
    print(f"{count} shapes, {seconds:.0f} s, {found} steeper than linear")
    return found


def _grown(random: Random, body: bytes) -> tuple[Callable[[int], bytes], str]:
    """A body of any size, made from *body* by repeating something in it, and what that is."""
    if random.randrange(3) and (found := _grown_json(random, body)):
        return found
    mark = json.dumps("".join(random.choice(_MARKS) for _ in range(random.randrange(1, 4))))[1:-1].encode()
    match random.randrange(4):
        case 0:
            events = body.split(b"\n\n")
            at = random.randrange(len(events))
            event = events[at] + b"\n\n"
            head, tail = b"\n\n".join(events[:at]) + b"\n\n" * (at > 0), b"\n\n".join(events[at + 1 :])
        case 1:
            at = random.randrange(len(body) + 1)
            end = min(len(body), at + random.randrange(1, 60))
            event, head, tail = body[at:end] or b"x", body[:at], body[end:]
        case 2 if strings := [*_STRING.finditer(body)]:
            at = random.choice(strings).end() - 1
            event, head, tail = mark, body[:at], body[at:]
        case _:
            at = random.randrange(len(body) + 1)
            event, head, tail = mark, body[:at], body[at:]
    return lambda size: head + event * (1 + size // len(event)) + tail, f"{event[:120]!r} after {head[-60:]!r}"


def _grown_json(random: Random, body: bytes) -> tuple[Callable[[int], bytes], str] | None:
    """The same by repeating an item of a list or an object in a document, or in one event; None where there is none."""
    lines = body.split(b"\n")
    at = random.randrange(len(lines))
    prefix, brace, rest = lines[at].partition(b"{")
    try:
        value = json.loads(brace + rest)
    except ValueError:
        return None
    holders = [holder for holder in _holders(value) if holder]
    if not holders:
        return None
    holder = random.choice(holders)
    key = random.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    item = json.dumps(holder[key])
    if isinstance(holder, list):
        holder[key] = "\0"
        unit_of, what = (lambda _: item), f"item {item[:120]}"
    else:
        name = json.dumps(str(key))[1:-1]
        holder["\0"] = holder.pop(key)
        unit_of, what = (lambda number: f'"{name}{number}":{item}'), f"key {name!r} with {item[:120]}"
    head, tail = _around(value, item if isinstance(holder, dict) else None)

    def grown(size: int) -> bytes:
        units = (unit_of(number) for number in range(1 + size // (len(item) + 8)))
        return _document(lines, at, prefix, head + ",".join(units) + tail)

    return grown, what


def _around(value: Any, item: str | None = None) -> tuple[str, str]:
    """What is written before and after the mark in *value*; with *item*, the mark is the key of it."""
    head, _, tail = json.dumps(value).partition('"\\u0000"' + ("" if item is None else f": {item}"))
    return head, tail


def _document(lines: list[bytes], at: int, prefix: bytes, text: str) -> bytes:
    return b"\n".join((*lines[:at], prefix + text.encode(), *lines[at + 1 :]))


def _holders(value: Any) -> Iterator[Any]:
    """Every list and object in *value*."""
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _holders(inner)


def _seconds(run: Callable[[Controls, bytes], None], controls: bytes, body: bytes) -> float:
    """The shorter of two runs, in seconds of this process."""
    taken = []
    for _ in range(2):
        began = time.process_time()
        run(Controls(controls), body)
        taken.append(time.process_time() - began)
        if taken[0] < _SHORTEST:
            break
    return min(taken)


def _reads(body: bytes) -> Iterator[bytes]:
    return (body[at : at + _READ] for at in range(0, len(body), _READ))


def _answer(controls: Controls, body: bytes) -> None:
    profile, request = controls.pick(PROFILES), controls.pick(REQUESTS)
    normalizer, writer, folder = StreamNormalizer(request, profile), SSEWriter(request), CompletionFolder(request)
    writer.open()
    events = [event for read in _reads(body) for event in normalizer.receive_data(read)]
    for event in events + normalizer.receive_eof(clean=True):
        writer.write(event)
        folder.feed(event)
    dumps(folder.completion())


def _request(controls: Controls, body: bytes) -> None:
    with contextlib.suppress(ProxyError, ValueError):
        request = ClientRequest.from_json(body, id="r", received=1)
        dumps(rewrite_request(request, controls.pick(PROFILES), "served").body)


def _error(controls: Controls, body: bytes) -> None:
    profile, request = controls.pick(PROFILES), controls.pick(REQUESTS)
    error = ErrorReader(request, profile.errors, ["upstream-secret"]).from_response(400, {}, body)
    error.body()
    learn_from(error, request.body, profile)


def _models(controls: Controls, body: bytes) -> None:
    read_model_list(body, hidden=controls.pick(PROFILES).models.hidden, created=1, owned_by="b")


def _http(_: Controls, body: bytes) -> None:
    parser = ResponseParser(TransportLimits())
    for read in _reads(body):
        if parser.done:
            break
        parser.feed(read)
    parser.discard()


_RUNS: Final[dict[str, Callable[[Controls, bytes], None]]] = {
    "answer": _answer, "request": _request, "error": _error, "models": _models, "http": _http,
}  # fmt: skip
