"""An answer that is held until it is whole, and let out as the operator's rules leave it.

Nothing of it is seen before: not in a stream, which is only kept alive, not in an error, not in a transcript. It is
judged in a thread, for the patterns are the operator's, and the text may be long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final, Protocol

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.response.answer_rules import AnswerRule, ruled, ruled_error
from svir_proxy.response.events import Event, Failed, Finished, Identified, Noted, ReasoningDelta, UsageReported
from svir_proxy.server.answer import BEGINNING, ClientAnswer, Source
from svir_proxy.server.http import Headers
from svir_proxy.server.request_record import RequestRecord

_JSON_FORMATS: Final = ("json_object", "json_schema")


class RuledAnswer:
    """Gathers an answer in front of the one that the client gets. Its `Progress` is that of the server's output."""

    gathers = True

    def __init__(self, answer: ClientAnswer) -> None:
        self._answer = answer
        self.is_timed = answer.is_timed
        self._begin()

    def _begin(self) -> None:
        self._events: list[Event] = []
        self.has_output = False
        self.pieces = 0
        """Events that came: what is held was generated all the same."""
        self.first_output: float | None = None
        """When the first output came (`time.perf_counter`)."""
        self.last_output: float | None = None
        """When the last came, once no more does."""
        self.has_reasoning = False
        """Whether it began with reasoning."""
        self.usage: dict[str, Any] | None = None
        """The token counts, once they are there."""
        self.finish_reason: str | None = None
        """Why the answer ended, as the client is told."""

    def take(self, events: Sequence[Event]) -> None:
        """Hold *events*; but for what is known about the answer before its text, and what was odd about it."""
        self.pieces += len(events)
        for event in events:
            if isinstance(event, Identified | Noted):
                self._answer.take([event])
                continue
            if isinstance(event, UsageReported):
                self.usage = event.usage
            elif not self.has_output and isinstance(event, BEGINNING):
                self.has_output = True
                self.first_output = time.perf_counter()
                self.has_reasoning = isinstance(event, ReasoningDelta)
            if not isinstance(event, Failed):
                self._events.append(event)

    def restart(self) -> None:
        """Hold another backend's answer instead."""
        self._begin()
        self._answer.restart()

    def tick(self, now: float) -> float:
        """What is due to the client is due all the same."""
        return self._answer.tick(now)

    def begin_source(self, source: Source) -> None:
        """The client cannot fall behind: it gets nothing yet."""

    def end_source(self, silence: float | None = None) -> None:
        """Note when the last output came."""
        if silence is not None:
            self.last_output = time.perf_counter() - silence

    async def release(self, rules: Sequence[AnswerRule], request: ClientRequest) -> None:
        """Let out what *rules* leave of it, which is the answer to *request*."""
        wanted = request.body.get("response_format")
        json_content = isinstance(wanted, dict) and wanted.get("type") in _JSON_FORMATS
        events, self._events = self._events, []
        left = await asyncio.to_thread(ruled, events, rules, json_content=json_content, offered=request.tool_names)
        self.finish_reason = next((event.reason for event in left if isinstance(event, Finished)), None)
        self._answer.take(left)


class Asking(Protocol):
    """A chat request on its way, to one backend or to several."""

    request: ClientRequest
    asked: str

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed in the request."""

    @property
    def headers(self) -> Headers:
        """Headers of the server's answer that are passed on."""

    async def run(self, answer: ClientAnswer) -> ProxyError | None:
        """Fill *answer*; the error where it is not whole."""


class Ruled:
    """*exchange*, whose answer is under *rules*; stands in its place."""

    def __init__(self, exchange: Asking, rules: Sequence[AnswerRule], record: RequestRecord) -> None:
        self._exchange = exchange
        self._rules = rules
        self._record = record
        self.request = exchange.request
        self.asked = exchange.asked

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed in the request."""
        return self._exchange.notes

    @property
    def headers(self) -> Headers:
        """Headers of the server's answer that are passed on."""
        return self._exchange.headers

    async def run(self, answer: ClientAnswer) -> ProxyError | None:
        """Fill *answer* in one burst; the error where there is none."""
        held = self._record.answer = RuledAnswer(answer)
        error = await self._exchange.run(held)
        if error is not None:
            error, notes = await asyncio.to_thread(ruled_error, error, self._rules)
            answer.take(notes)
            return error
        await held.release(self._rules, self.request)
        return None
