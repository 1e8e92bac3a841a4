"""Top-level fields that an answer can do without.

Most of them have no effect that an answer shows. They are sent all at once: one answer says that all are taken, and
only a refusal makes it worth asking one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from svir_proxy.probe.answer import Ask, Reading
from svir_proxy.probe.dialogue import (
    HELLO,
    HELLOS,
    NO_EFFECT,
    NO_STREAM,
    Dialogue,
    Question,
    demand,
    excerpt,
    gained,
    in_words,
    quoted,
    rejected,
    size,
    unknown,
)
from svir_proxy.probe.finding import Finding
from svir_proxy.probe.questions.tools import BOTH
from svir_proxy.probe.subject import Subject

_FIELD: Final = "request.optional_fields"
_FOREIGN: Final = "request.unknown_fields"
_STOP: Final = "request.stop"
_EFFORT: Final = f"{_FIELD}.reasoning_effort"
_EFFORTS: Final = "request.reasoning_efforts"
_LOGPROBS: Final = f"{_FIELD}.logprobs"
_TOP: Final = f"{_FIELD}.top_logprobs"
_STREAM_LOGPROBS: Final = "request.stream_logprobs"
_STREAM_LOGPROBS_WITH_TOOLS: Final = "request.stream_logprobs_with_tools"
_IN_STREAMS: Final = (_STREAM_LOGPROBS, _STREAM_LOGPROBS_WITH_TOOLS)
_SEED: Final = f"{_FIELD}.seed"

SILENT: Final[dict[str, Any]] = {
    "store": False,
    "metadata": {"svir": "probe"},
    "service_tier": "auto",
    "user": "svir-probe",
    "safety_identifier": "svir-probe",
    "prompt_cache_key": "svir-probe",
    "prompt_cache_retention": "24h",
    "prediction": {"type": "content", "content": "Hello!"},
    "modalities": ["text"],
    "verbosity": "medium",
    "web_search_options": {},
    "logit_bias": {"100": 0},
    "frequency_penalty": 0.1,
    "presence_penalty": 0.1,
}
"""Fields whose effect no answer shows, and a value for each."""
_NONSENSE: Final = {"svir_probe_of_unknown_fields": True}
_WORDS_OF_EFFORT: Final = ("none", "minimal", "low", "medium", "high", "xhigh")
_INSTEAD: Final = {
    "none": ("minimal", "low"),
    "minimal": ("low", "medium"),
    "low": ("medium",),
    "medium": ("low", "high"),
    "high": ("medium", "low"),
    "xhigh": ("high", "medium"),
}
"""What comes nearest to a word of effort that is refused."""
_ALTERNATIVES: Final = 2
_WORDS: Final = 3
"""Of an answer in which there is something to stop at."""
_NEVER_SAID: Final = "\u2603"


def silent(subject: Subject) -> Dialogue:
    """The fields without a visible effect."""
    every = yield subject.ask(HELLO, room=subject.least, **SILENT)
    for name, value in SILENT.items():
        fact = f"{_FIELD}.{name}"
        if not every.refused:
            yield unknown(fact, NO_EFFECT)
            continue
        reading = yield subject.ask(HELLO, room=subject.least, **{name: value})
        yield rejected(fact, reading) if reading.refused else unknown(fact, NO_EFFECT)


def foreign(subject: Subject) -> Dialogue:
    """A field that nobody knows."""
    reading = yield subject.ask(HELLO, room=subject.least, **_NONSENSE)
    yield rejected(_FOREIGN, reading) if reading.refused else Finding(_FOREIGN, "ignored", "a made-up field is taken")


def stop(subject: Subject) -> Dialogue:
    """Stop sequences out of the middle of an answer that is known: one within words, and one that begins a word.

    Some servers look for the tokens of a sequence and not for its text; those of half words are others.
    """
    sequences = _sequences(subject.control)
    if not sequences:
        reading = yield subject.ask(HELLO, stop=[_NEVER_SAID])
        too_short = f"taken; the answer is too short to stop in: {quoted(subject.control)}"
        yield rejected(_STOP, reading) if reading.refused else unknown(_STOP, too_short)
        return
    asked: list[str] = []

    def asks() -> Iterator[Ask]:
        for sequence in sequences:
            asked.append(sequence)
            yield subject.ask(HELLO, stop=[sequence])

    yield from demand(_STOP, asks(), lambda reading: _stopped(reading.text, asked[-1], subject.control))


def _sequences(control: str) -> list[str]:
    """What to stop at; nothing where *control* has no three words."""
    words = control.split()
    if len(words) < _WORDS:
        return []
    begin = control.find(words[1], len(words[0])) - 1
    within = control[begin - len(words[0]) // 2 : begin + 1 + (len(words[1]) + 1) // 2]
    return [within, control[begin : begin + 1 + len(words[1])], within]


def _stopped(text: str, sequence: str, control: str) -> bool | None:
    """Whether *text* is *control* up to *sequence*; None: it is another answer."""
    before, _, rest = control.partition(sequence)
    if sequence in text:
        return False
    if text.strip() == before.strip():
        return True
    return False if rest.strip() and text.strip().endswith(rest.strip()) else None


def logprobs(subject: Subject) -> Dialogue:
    """Log probabilities, plain and streamed, with tools and without."""
    asked: dict[str, Any] = {"logprobs": True, "top_logprobs": _ALTERNATIVES}
    both = yield subject.ask(HELLO, **asked)
    if both.refused:
        alone = yield subject.ask(HELLO, logprobs=True)
        if alone.refused:
            yield rejected(_LOGPROBS, alone)
            yield unknown(_TOP, "logprobs as such are refused")
            yield from (unknown(fact, "logprobs as such are refused") for fact in _IN_STREAMS)
            return
        yield _shown(_LOGPROBS, alone)
        yield rejected(_TOP, both)
        asked = {"logprobs": True}
    else:
        yield _shown(_LOGPROBS, both)
        most = max((len(entry.get("top_logprobs") or ()) for entry in both.raw.logprobs), default=None)
        if most is None:
            yield unknown(_TOP, "there are no logprobs that could have alternatives")
        else:
            yield Finding(_TOP, "kept" if most else "ignored", f"asked for {_ALTERNATIVES} alternatives, {most} came")
    streamed = yield subject.ask(HELLO, stream=True, **asked)
    yield _in_a_stream(_STREAM_LOGPROBS, streamed)
    if subject.tools in ("rejected", "ignored") or not subject.streams_tools:
        yield unknown(_STREAM_LOGPROBS_WITH_TOOLS, "tools as such are not taken, or not in a stream")
        return
    reading = yield subject.ask(HELLO, stream=True, tools=BOTH, **asked)
    yield _in_a_stream(_STREAM_LOGPROBS_WITH_TOOLS, reading)


def _in_a_stream(fact: str, reading: Reading) -> Finding:
    if reading.refused:
        return rejected(fact, reading)
    return _shown(fact, reading) if reading.raw.streamed else unknown(fact, NO_STREAM)


def _shown(fact: str, reading: Reading) -> Finding:
    if reading.raw.logprobs:
        return Finding(fact, "kept", f"{len(reading.raw.logprobs)} came")
    if not reading.text:
        return unknown(fact, f"taken; there was no text to report on: {in_words(reading)}")
    return Finding(fact, "ignored", "taken, none came")


def seed(subject: Subject) -> Dialogue:
    """One seed twice, among answers that vary without it."""
    asked: dict[str, Any] = {"temperature": 1.0} if subject.cool else {}
    once = yield subject.ask(HELLOS[1], seed=7, **asked)
    if once.refused:
        yield rejected(_SEED, once)
        return
    twice = yield subject.ask(HELLOS[1], seed=7, **asked)
    if once.text != twice.text:
        again = yield subject.ask(HELLOS[1], seed=7, **asked)
        same = again.text in (once.text, twice.text)
        yield (
            unknown(_SEED, "one seed gives different answers, and the same one at times")
            if same
            else Finding(_SEED, "ignored", f"one seed, three answers: {quoted(once.text)}, {quoted(twice.text)}")
        )
        return
    for _ in HELLOS:
        free = yield subject.ask(HELLOS[1], **asked)
        if free.text != once.text:
            yield Finding(_SEED, "kept", f"twice {quoted(once.text)} with one seed, {quoted(free.text)} without")
            return
    yield unknown(_SEED, "taken; the answers do not vary without it either")


def effort(subject: Subject) -> Dialogue:
    """Each word of ``reasoning_effort``: whether it is taken, and whether it changes anything."""
    sizes: dict[str, Reading] = {}
    usual = yield from size(subject, HELLO)
    for word in _WORDS_OF_EFFORT:
        sizes[word] = yield from size(subject, HELLO, reasoning_effort=word)
    refused = {word: reading for word, reading in sizes.items() if reading.refused}
    if len(refused) == len(sizes):
        yield rejected(_EFFORT, refused["low"])
        return
    instead = {word: next((other for other in _INSTEAD[word] if other not in refused), None) for word in refused}
    if instead:
        yield Finding(_EFFORTS, instead, "; ".join(f"{word}: {reading.words}" for word, reading in refused.items()))
    for word, reading in sizes.items():
        more = gained(subject, reading, usual)
        if not reading.refused and more:
            yield Finding(_EFFORT, "kept", f"{word} changes the prompt, by {more} tokens")
            return
    off = "none" if "none" not in refused else "minimal" if "minimal" not in refused else "low"
    on = "high" if "high" not in refused else "medium"
    without = yield subject.ask(HELLO, reasoning_effort=off)
    with_ = yield subject.ask(HELLO, reasoning_effort=on)
    told = (
        f"{off}: {_thought(without)}; {on}: {_thought(with_)}; without it: {'' if subject.thinks else 'no '}reasoning"
    )
    if bool(without.reasoning) != bool(with_.reasoning):
        again = yield subject.ask(HELLO, reasoning_effort=off)
        repeated = yield subject.ask(HELLO, reasoning_effort=on)
        if [bool(r.reasoning) for r in (again, repeated)] == [bool(r.reasoning) for r in (without, with_)]:
            yield Finding(_EFFORT, "kept", f"twice, {told}")
        else:
            yield unknown(_EFFORT, f"taken; {told}; and otherwise when asked again")
    elif off == "none" and subject.thinks and without.reasoning and subject.counts:
        # Less effort need not show; none at all does.
        yield Finding(_EFFORT, "ignored", f"{told}, and the prompt is the same")
    else:
        yield unknown(_EFFORT, f"taken; {told}")


def _thought(reading: Reading) -> str:
    return f"reasoning {excerpt(reading.reasoning)!r}" if reading.reasoning else "no reasoning"


ABOUT_FIELDS: Final = (
    Question("stop sequences", (_STOP,), stop),
    Question("reasoning_effort", (_EFFORT,), effort),
    Question("logprobs", (_LOGPROBS, _TOP, _STREAM_LOGPROBS, _STREAM_LOGPROBS_WITH_TOOLS), logprobs),
    Question("seed", (_SEED,), seed),
    Question("fields without a visible effect", tuple(f"{_FIELD}.{name}" for name in SILENT), silent),
    Question("unknown fields", (_FOREIGN,), foreign),
)
