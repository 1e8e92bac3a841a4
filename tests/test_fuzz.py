"""What `fuzz/` found once stays found; its targets take what is recorded, break on what is wrong, and, in a small sample
of what it runs for hours, find nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from fuzz.controls import SIZE, Controls, chosen
from fuzz.exchange import Exchanges, an_input, outcome
from fuzz.mutate import attempt, mutate, smaller
from fuzz.reference import plain_text
from fuzz.targets import TARGETS, Target
from fuzz.targets.circumstances import PROFILES
from svir_proxy.response.events import ContentDelta
from svir_proxy.server.transport.parser import ResponseParser

FINDINGS: Final = Path(__file__).parents[1] / "fuzz" / "findings"
SAMPLE: Final = 300
EXCHANGES: Final = 240
USUAL: Final = [
    at for at, profile in enumerate(PROFILES) if profile.name in ("generic", "mlx-lm", "llama-cpp", "ollama")
]


def found() -> list[str]:
    return sorted(path.relative_to(FINDINGS).as_posix() for path in FINDINGS.glob("*/*"))


@pytest.mark.parametrize("name", found())
async def test_what_was_found_is_right_now(name: str) -> None:
    kind, data = name.partition("/")[0], (FINDINGS / name).read_bytes()
    if kind == "exchange":
        async with Exchanges(1) as exchanges:
            assert (await exchanges.problems(data))[0] == []
    else:
        assert TARGETS[kind].check(data)


@pytest.mark.parametrize("name", TARGETS)
def test_recordings_are_taken(name: str) -> None:
    seeds = [*TARGETS[name].seeds()][:: 10 if name == "answer" else 5]
    assert len(seeds) >= 3
    assert {data[:20]: where for data in seeds if (where := attempt(TARGETS[name], data))} == {}


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_found_at_first_sight(name: str, tmp_path: Path) -> None:
    assert mutate(TARGETS[name], SAMPLE, 1, tmp_path) == 0


async def test_a_running_proxy_makes_valid_answers_of_broken_responses() -> None:
    ended: set[str] = set()
    async with Exchanges(EXCHANGES) as exchanges:
        numbers = iter(range(EXCHANGES))

        async def send() -> None:
            for number in numbers:
                problems, seen = await exchanges.problems(an_input(number, 1, USUAL))
                assert problems == [], f"input {number}"
                ended.add(outcome(seen).split()[0])

        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(send())
        assert await exchanges.well() == []
    assert ended >= {"an", "400", "502"}


# ----------------------------------------------------------------------- the tools themselves


def _falls_over(data: bytes) -> str:
    if b"<a>" in data and b"<b>" in data:
        raise KeyError("a and b")
    assert b"<c>" not in data, "event 3: rule: c"
    return "fine"


def test_a_finding_is_told_kept_and_made_smaller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = b"\n\n".join([b"one", b"two <a> three", *[b"filler"] * 30, b"four\n<b> five", b"six"])
    fragile = Target(_falls_over, lambda: [chosen(7) + body])
    assert mutate(fragile, 40, 0, tmp_path) == 1
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [kept := next(tmp_path.iterdir()).read_bytes()]
    assert sorted((kept[SIZE:].replace(b"\n", b"")[:3], kept[SIZE:].replace(b"\n", b"")[3:])) == [b"<a>", b"<b>"]
    assert "KeyError" in capsys.readouterr().out


def test_findings_are_told_apart() -> None:
    target = Target(_falls_over, list)
    assert attempt(target, b"") is None
    assert "KeyError" in str(attempt(target, b"<a><b>"))
    assert "rule" in str(attempt(target, b"<c>"))


FAULTS: Final[dict[str, tuple[str, str, Any]]] = {
    "an event lacks its end": ("answer", "svir_proxy.response.sse_writer._TAIL", b'},"logprobs":null}]}\n'),
    "text is lost": ("answer", "svir_proxy.response.chunk_reader.ContentDelta", lambda text: ContentDelta(text[:5])),
    "text depends on the cut": (
        "answer",
        "svir_proxy.response.sse.SSEParser._check",
        lambda parser, size: 1 // (size % 7),
    ),
    "another model is asked": ("request", "svir_proxy.request.rewrites.model.with_values", lambda body, _: body),
    "the client's body is changed": (
        "request",
        "svir_proxy.request.rewrites.model.with_values",
        lambda body, values: body.update(values) or body,
    ),
    "bytes are lost": (
        "http",
        "svir_proxy.server.transport.parser.ResponseParser.feed",
        lambda parser, data, feed=ResponseParser.feed: feed(parser, data)[:9],
    ),
    "no wait is told": ("error", "svir_proxy.errors._WAITS", ()),
    "a time before time": ("models", "svir_proxy.response.model_list.safe_integer", lambda _: -1),
}
"""A fault of the core: the target that has to notice, and what is put in the place of what."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_core_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracles are connected: recordings that were fine no longer are."""
    target, place, wrong = FAULTS[name]
    monkeypatch.setattr(place, wrong)
    assert any(attempt(TARGETS[target], data) for data in TARGETS[target].seeds())


def stream(*chunks: str, end: str = "data: [DONE]\n\n") -> bytes:
    return "".join(f"data: {chunk}\n\n" for chunk in chunks).encode() + end.encode()


def delta(more: str = "", choice: str = "") -> str:
    return f'{{"choices":[{{"index":0,"delta":{{"content":"x"{more}}}{choice}}}]}}'


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (stream(delta(), delta(), '{"choices":[],"usage":{}}'), "xx"),
        (b"\xef\xbb\xbf: hi\r\n\r\n" + stream(delta()).replace(b"\n", b"\r\n"), "x"),
        (
            stream('{"choices":[{"delta":{"content":"\\ud83d"}}]}', '{"choices":[{"delta":{"content":"\\ude00"}}]}'),
            "\U0001f600",
        ),
        (stream(delta(), end=""), None),
        (stream(delta(',"tool_calls":[1]')), None),
        (stream(delta(',"tool_calls":[]')), "x"),
        (stream(delta(choice=',"finish_reason":"error"')), None),
        (stream(delta(), "{"), None),
        (stream(delta().replace("x", "<think>")), None),
        (b'{"choices":[]}', None),
    ],
)
def test_the_second_reader(body: bytes, text: str | None) -> None:
    assert plain_text(body) == text


def test_controls_choose_and_run_out() -> None:
    controls, body = Controls.split(chosen(1, 2) + b"body")
    assert (controls.pick("abc"), controls.pick("abc"), controls.pick("abc"), body) == ("b", "c", "a", b"body")
    assert Controls(b"\1\2").pick(range(1000)) == 0x102
    assert Controls(b"").pick("ab") == "a"


def test_an_input_is_the_same_for_the_same_seed() -> None:
    assert an_input(5, 1) == an_input(5, 1) != an_input(5, 2)


def test_what_is_made_smaller_still_holds() -> None:
    data = bytes(SIZE) + bytes(range(256)) * 4
    assert smaller(data, lambda less: b"\x40" in less and b"\xf0" in less)[SIZE:] == b"\x40\xf0"
