"""Holds the dialogues with a server: in order, within limits, and never judging by one failure.

What is not answered (no connection, a time-out, 429, a 5xx, a body that is no answer) is asked again; what is refused
is, too, once. After a question that failed for good the plainest one is asked: a server that does not answer that
either is not asked on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from svir_proxy.probe.answer import Ask, Reader, Reading
from svir_proxy.probe.dialogue import HELLO, Dialogue, Question, unknown
from svir_proxy.probe.finding import Finding, NoAnswer, NotInterviewed, OutOfLimits
from svir_proxy.probe.subject import Subject
from svir_proxy.probe.wire import Wire
from svir_proxy.response.model_list import is_path

TRIES: Final = 3
"""How often a request that fails is sent."""
TRIES_OF_TIME: Final = 2
"""How often one is sent that gets no answer in time: a third time would take the time of three other questions."""
REFUSALS: Final = 2
"""How often a request that is refused is sent, before it counts."""
LONGEST_PAUSE: Final = 20.0
"""Seconds that are waited at most before a repeat, whatever ``Retry-After`` says."""
_BYTES_A_TOKEN: Final = 4
"""Roughly, for a server that does not count."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What an interview may take."""

    seconds: float = 300.0
    """In all."""
    question_seconds: float = 60.0
    """For one answer."""
    tokens: int = 100_000
    """In all, read and written."""


@dataclass(slots=True)
class Spent:
    """What it took."""

    requests: int = 0
    tokens: int = 0
    counted: bool = True
    """Whether the server counted all of the tokens; what it did not is estimated."""
    seconds: float = 0.0

    def count(self, ask: Ask, reading: Reading) -> None:
        """One more request, and what came."""
        self.requests += 1
        read, written = reading.prompt_tokens, reading.completion_tokens
        if read is not None and written is not None:
            self.tokens += read + written
        elif reading.outcome == "answered":
            self.counted = False
            self.tokens += (len(str(ask.body)) + len(reading.text) + len(reading.reasoning)) // _BYTES_A_TOKEN


@dataclass(slots=True)
class Interview:
    """One server, asked.

    Attributes:
        wire: Carries the requests.
        subject: What is known of the server.
        reader: Reads its answers.
        limits: What the interview may take.
        clock: Seconds.
        pause: Waits for seconds.
        tell: Is told each question as it is asked, with None, and again with what was found.
        findings: What was found, in the order it was.
        spent: What it took.
        stopped: Why the interview ended early; ``""``: it did not.
    """

    wire: Wire
    subject: Subject
    reader: Reader
    limits: Limits
    clock: Callable[[], float]
    pause: Callable[[float], Awaitable[None]]
    tell: Callable[[int, Question, list[Finding] | None], None]
    findings: list[Finding] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)
    stopped: str = ""
    _began: float = 0.0

    async def hold(self, questions: Iterable[Question]) -> None:
        """Ask *questions*; NotInterviewed where not even the first is answered."""
        self._began = self.clock()
        try:
            for number, question in enumerate(questions, 1):
                self.tell(number, question, None)
                found = await self._found(question, first=number == 1)
                self.findings += found
                self.tell(number, question, found)
        finally:
            self.spent.seconds = self.clock() - self._began

    async def _found(self, question: Question, *, first: bool) -> list[Finding]:
        """What *question* brings; what it does not is unknown, and why."""
        found: list[Finding] = []
        stopped = f"not asked: {self.stopped}" if self.stopped else ""
        why = stopped or await self._converse(question, found, first=first)
        if why:
            told = {finding.fact for finding in found}
            found += [unknown(fact, why) for fact in question.facts if fact not in told]
        return found

    async def _converse(self, question: Question, found: list[Finding], *, first: bool) -> str:
        """Hold one dialogue, adding to *found*; why it ended before its end, ``""`` if it did not."""
        dialogue = question.ask(self.subject)
        try:
            await self._follow(dialogue, found)
        except NoAnswer as exc:
            if first:
                raise NotInterviewed(_why(exc)) from None
            await self._check_that_it_lives()
            return f"no answer: {exc}"
        except OutOfLimits as exc:
            if first:
                raise NotInterviewed(f"the server did not answer the plainest request: {exc}") from None
            self.stopped = str(exc)
            return f"not asked to the end: {exc}"
        finally:
            dialogue.close()
        return ""

    async def _follow(self, dialogue: Dialogue, found: list[Finding]) -> None:
        try:
            step = next(dialogue)
            while True:
                if isinstance(step, Finding):
                    found.append(self._without_paths(step))
                    step = next(dialogue)
                else:
                    step = dialogue.send(await self.ask(step))
        except StopIteration:
            pass

    def _without_paths(self, finding: Finding) -> Finding:
        """*finding* without a path of the server's machine, where that is the model's name."""
        if not is_path(self.subject.model):
            return finding
        return replace(finding, evidence=finding.evidence.replace(self.subject.model, "MODEL"))

    async def _check_that_it_lives(self) -> None:
        try:
            await self.ask(self.subject.ask(HELLO, room=self.subject.least))
        except NoAnswer as exc:
            self.stopped = f"the server stopped answering: {exc}"
        except OutOfLimits as exc:
            self.stopped = str(exc)

    async def ask(self, ask: Ask) -> Reading:
        """The answer, or the refusal that was repeated; NoAnswer or OutOfLimits where there is neither."""
        failures = refusals = 0
        while True:
            reading = await self._once(ask)
            if reading.outcome == "answered":
                return reading
            if reading.refused:
                refusals += 1
                if refusals >= REFUSALS:
                    return reading
                continue
            failures += 1
            if failures >= (TRIES_OF_TIME if reading.answer.late else TRIES) or reading.kind == "upstream_auth_failed":
                raise NoAnswer(f"{reading.words}{f' ({failures} times)' if failures > 1 else ''}", reading.kind)
            await self._wait(reading, failures)

    async def _once(self, ask: Ask) -> Reading:
        left = self.limits.seconds - (self.clock() - self._began)
        if left <= 0:
            raise OutOfLimits(f"the limit of {self.limits.seconds:g} s is reached")
        if self.spent.tokens >= self.limits.tokens:
            raise OutOfLimits(f"the limit of {self.limits.tokens} tokens is reached")
        answer = await self.wire.ask(ask, min(left, self.limits.question_seconds))
        reading = self.reader.read(ask, answer, self.subject.response)
        self.spent.count(ask, reading)
        return reading

    async def _wait(self, reading: Reading, failures: int) -> None:
        asked = reading.answer.headers.get("retry-after", "")
        seconds = float(asked) if asked.isdecimal() else 0.5 * 2**failures
        left = self.limits.seconds - (self.clock() - self._began)
        await self.pause(max(0.0, min(seconds, LONGEST_PAUSE, left)))


def _why(failure: NoAnswer) -> str:
    """Why not even the first question was answered, and what to do."""
    if failure.kind == "upstream_auth_failed":
        return f"the server asks for a key, or for another one ({failure}); name its variable with --api-key-env"
    if failure.kind == "upstream_bad_response":
        return f"something else than a model server answered ({failure}); check the URL"
    return f"the server did not answer the plainest request: {failure}"
