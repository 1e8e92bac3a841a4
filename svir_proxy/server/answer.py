"""The client's side of an answer: a stream that begins with its first output, or one whole completion."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from starlette.types import Send

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.response.completion import CompletionFolder
from svir_proxy.response.events import ContentDelta, Event, Failed, Finished, Identified, Noted, ReasoningDelta
from svir_proxy.response.json_text import dumps
from svir_proxy.response.lifecycle import OUTPUT
from svir_proxy.response.sse_writer import KEEPALIVE, SSEWriter
from svir_proxy.server.http import Headers
from svir_proxy.server.sender import Sender
from svir_proxy.settings import StreamingSettings

_STREAM_HEADERS: Final[Headers] = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
BEGINNING: Final = (*OUTPUT, Finished)
"""What a stream begins with: output, or the end of an answer that has none."""

_TEXTS: Final = (ContentDelta, ReasoningDelta)
_MAX_NOTES: Final = 20


class Source(Protocol):
    """Where the events of an answer come from, as the answer sees it."""

    def pause(self) -> None:
        """Send no more events for now."""

    def resume(self) -> None:
        """Go on."""


class Answer(Protocol):
    """Where the events of an answer go."""

    @property
    def has_output(self) -> bool:
        """Whether any output came: after that nothing can be asked again."""

    @property
    def gathers(self) -> bool:
        """Whether all of it is held in memory until it is whole."""

    @property
    def is_timed(self) -> bool:
        """Whether anything is ever due to the client before it is whole."""

    def take(self, events: Sequence[Event]) -> None:
        """Take the next events. A failure among them is the caller's to tell."""

    def tick(self, now: float) -> float:
        """Do what is due at *now* (time of the loop); returns when to call again."""

    def begin_source(self, source: Source) -> None:
        """The events come from *source* from now on; it is held back while the client is behind."""

    def end_source(self, silence: float | None = None) -> None:
        """No more events come from there; the last output did *silence* seconds ago (None: none did)."""


class ClientAnswer(Answer, Protocol):
    """The answer that the client gets."""

    def restart(self) -> None:
        """Another backend's answer takes the place of this one, of which the client has nothing. Its notes stay."""


A = TypeVar("A", bound=Answer)


class InFront(Generic[A]):
    """Stands in front of *answer* to see its events: `take` hands them on, all else is as the answer has it."""

    def __init__(self, answer: A) -> None:
        self._answer = answer
        self.gathers = answer.gathers
        self.is_timed = answer.is_timed

    @property
    def has_output(self) -> bool:
        """Whether any output came."""
        return self._answer.has_output

    def tick(self, now: float) -> float:
        """As the answer has it."""
        return self._answer.tick(now)

    def begin_source(self, source: Source) -> None:
        """As the answer has it."""
        self._answer.begin_source(source)

    def end_source(self, silence: float | None = None) -> None:
        """As the answer has it."""
        self._answer.end_source(silence)


def add_note(notes: list[str], text: str) -> None:
    """Add *text* to the *notes* on what was odd about an answer: each thing once, and not without end."""
    if len(notes) < _MAX_NOTES and text not in notes:
        notes.append(text)


def note_model(notes: list[str], event: Identified, asked: str) -> None:
    """Tell in *notes* that another model answered than the one *asked* for."""
    if event.model != asked:
        add_note(notes, "model=answered_by")


class StreamedAnswer:
    """An answer as a stream. Nothing is sent before the first output, or ``commit_after`` without any.

    *head* gives the headers beside those of a stream that begins with what is noted by then: asked for as soon as there
    is a source, and once more where that may have changed. *asked* is the model whose answer it should be (``""``:
    whichever answers is right).
    """

    gathers = False
    is_timed = True

    def __init__(
        self,
        request: ClientRequest,
        send: Send,
        head: Callable[[Sequence[str]], Headers],
        settings: StreamingSettings,
        asked: str = "",
    ) -> None:
        self._writer = SSEWriter(request)
        self._sender = Sender(send)
        self._head = head
        self._keepalive = settings.keepalive
        self._loop = asyncio.get_running_loop()
        self._wrote_at = self._loop.time()
        self._commit_at = self._wrote_at + settings.commit_after
        self._asked = asked
        self._is_prepared = False  # the sender has the head as it is now
        self._flows = False  # it has begun, and with output
        self.pieces = 0
        """Events that came; see `Progress`, which this is too."""
        self.first_output: float | None = None
        """When the first output came (`time.perf_counter`)."""
        self.last_output: float | None = None
        """When the last came, once no more does."""
        self.has_reasoning = False
        """Whether it began with reasoning."""
        self.committed = False
        """Whether the client has seen anything: after that a failure has no status of its own."""
        self.has_output = False
        self.notes: list[str] = []
        """What was odd about the answer."""

    @property
    def usage(self) -> dict[str, Any] | None:
        """The token counts, once they are there."""
        return self._writer.usage

    @property
    def finish_reason(self) -> str | None:
        """Why the answer ended, once it has."""
        return self._writer.finish_reason

    def begin_source(self, source: Source) -> None:
        """The events come from *source* from now on."""
        self._sender.source = source
        if not self.committed:
            self._prepare()  # while the server is at work: nobody waits for it now

    def end_source(self, silence: float | None = None) -> None:
        """No more events come from there."""
        self._sender.source = None
        self._is_prepared = False  # another answer has other headers
        if silence is not None:
            self.last_output = time.perf_counter() - silence

    def take(self, events: Sequence[Event]) -> None:
        """Write *events*, all in one message; those that are no output wait for the stream to begin."""
        if self._flows and len(events) == 1 and type(event := events[0]) in _TEXTS:
            self.pieces += 1  # nearly all of them, and nothing to do but this
            self._sender.write(self._writer.write(event))
            self._wrote_at = self._loop.time()
            return
        out: list[bytes] = []
        opens = False
        write = self._writer.write
        self.pieces += len(events)
        for event in events:
            if not self.has_output:
                if type(event) in BEGINNING:
                    self.has_output = True
                    self.first_output = time.perf_counter()
                    self.has_reasoning = type(event) is ReasoningDelta
                    if not self.committed:
                        opens = True
                        if not self._is_prepared:
                            self._prepare()
                        out.append(self._writer.open())
                elif type(event) is Identified and self._asked:
                    note_model(self.notes, event, self._asked)
                    self._is_prepared = False
            if type(event) is Noted:
                add_note(self.notes, event.note)
                self._is_prepared = False
            elif type(event) is not Failed:
                out.append(write(event))
        data = b"".join(out)
        if data:
            if opens:
                self.committed = True
                self._sender.open(data)
            else:
                self._sender.write(data)
            self._wrote_at = self._loop.time()  # the client need not wait for this
        self._flows = self.has_output and self.committed

    def fail(self, error: ProxyError) -> None:
        """The last event of a stream that has begun and failed."""
        self._write(self._writer.write(Failed(error)))

    def tick(self, now: float) -> float:
        """Begin without output when that is due, then keep the connection alive."""
        if not self.committed:
            if now < self._commit_at:
                return self._commit_at
            if not self._is_prepared:
                self._prepare()
            self._wrote_at = self._loop.time()
            self.committed = True
            self._sender.open(self._writer.open())
        elif self._sender.is_blocked:
            return now + self._keepalive  # the client has something to read
        elif now >= self._wrote_at + self._keepalive:
            self._write(KEEPALIVE)
        return self._wrote_at + self._keepalive

    def restart(self) -> None:
        """Take another backend's answer from here on. The stream may have begun, but without output."""
        self._writer.forget()
        self.pieces, self.last_output = 0, None

    async def end(self) -> None:
        """End the HTTP body, and wait until the client has all of it."""
        self._sender.send({"type": "http.response.body", "body": b"", "more_body": False})
        await self._sender.drained()

    async def break_off(self, error: ProxyError) -> None:
        """End a stream that has begun at once, without waiting for the client to take it."""
        self.fail(error)
        self._sender.send({"type": "http.response.body", "body": b"", "more_body": False})
        await self._sender.handed_over()

    def abandon(self) -> None:
        """The client is gone."""
        self._sender.cancel()

    def _prepare(self) -> None:
        self._is_prepared = True
        self._sender.prepare(200, _STREAM_HEADERS + self._head(self.notes))

    def _write(self, data: bytes) -> None:
        self._wrote_at = self._loop.time()
        self._sender.write(data)


class WholeAnswer:
    """An answer as one ``chat.completion``; the client sees nothing before it is whole."""

    gathers = True
    is_timed = False

    def __init__(self, request: ClientRequest, asked: str = "") -> None:
        self._request = request
        self._folder = CompletionFolder(request)
        self._asked = asked
        self.pieces = 0
        """Events that came; see `Progress`, which this is too."""
        self.first_output: float | None = None
        """When the first output came (`time.perf_counter`)."""
        self.last_output: float | None = None
        """When the last came, once no more does."""
        self.has_reasoning = False
        """Whether it began with reasoning."""
        self.has_output = False
        self.notes: list[str] = []
        """What was odd about the answer."""

    @property
    def usage(self) -> dict[str, Any] | None:
        """The token counts, once they are there."""
        return self._folder.usage

    @property
    def finish_reason(self) -> str | None:
        """Why the answer ended, once it has."""
        return self._folder.finish_reason

    def begin_source(self, source: Source) -> None:
        """Nothing is ever held back: the answer is gathered, within its limits."""

    def end_source(self, silence: float | None = None) -> None:
        """Note when the last output came."""
        if silence is not None:
            self.last_output = time.perf_counter() - silence

    def take(self, events: Sequence[Event]) -> None:
        """Gather *events*."""
        self._folder.take(events)
        self.pieces += len(events)
        for event in events:
            if type(event) is Noted:
                add_note(self.notes, event.note)
            elif self.has_output:
                continue
            elif type(event) in BEGINNING:
                self.has_output = True
                self.first_output = time.perf_counter()
                self.has_reasoning = type(event) is ReasoningDelta
            elif type(event) is Identified and self._asked:
                note_model(self.notes, event, self._asked)

    def restart(self) -> None:
        """Gather another backend's answer; what was gathered is nothing."""
        self._folder = CompletionFolder(self._request)
        self.has_output = False
        self.pieces, self.first_output, self.last_output = 0, None, None

    def tick(self, now: float) -> float:
        """Nothing is ever due."""
        return now + 3600

    def body(self) -> bytes:
        """The completion as JSON."""
        return dumps(self._folder.completion())
