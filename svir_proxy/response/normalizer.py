"""An upstream's 200, whatever is in it, as canonical events: the whole way down behind two methods.

Bytes are told apart by how they begin, not by their content type: a stream under ``application/json`` is read as a
stream, JSON under ``text/event-stream`` as JSON, and HTML is a page somebody put in front of the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.profiles.schema import Profile
from svir_proxy.response.chunk_reader import ChunkReader, Unreadable, unreadable
from svir_proxy.response.events import Ended, Event, ExtrasReported, Failed
from svir_proxy.response.extras import read_extras
from svir_proxy.response.json_text import loads
from svir_proxy.response.lifecycle import OVER, Lifecycle, State
from svir_proxy.response.payloads import DONE, read_payloads
from svir_proxy.response.sse import ServerSentEvent, SSEParser
from svir_proxy.response.stages.cumulative import Cumulative
from svir_proxy.response.stages.finish import Finish
from svir_proxy.response.stages.stage import Sink
from svir_proxy.response.stages.text_calls import TextCalls
from svir_proxy.response.stages.think_tags import ThinkTags
from svir_proxy.response.stages.tool_calls import ToolCalls
from svir_proxy.response.upstream_error import ErrorReader

_BOM: Final = b"\xef\xbb\xbf"
_BLANKS: Final = b" \t\r\n"
_FIELDS: Final = (b"data", b"event", b"id", b"retry")
_EXCERPT: Final = 200


@dataclass(frozen=True, slots=True)
class Limits:
    """What one upstream answer may hold back of this proxy's memory."""

    event_bytes: int = 32 << 20
    """Bytes of one server-sent event."""
    answer_bytes: int = 64 << 20
    """Bytes of one whole JSON answer."""
    held_characters: int = 1 << 20
    """Characters of text and of arguments that may wait for what comes after them."""


class StreamNormalizer:
    """Reads one upstream answer.

    Never raises for anything an upstream sends, never looks at a clock. The events do not depend on how the bytes were
    cut; time is linear in the bytes and memory bounded by *limits*. After `State.COMPLETE` or `State.FAILED` nothing
    comes out. With *extras* what is outside of the protocol comes as `ExtrasReported`.
    """

    __slots__ = (
        "_clean_end",
        "_document",
        "_errors",
        "_finish",
        "_head",
        "_input",
        "_lifecycle",
        "_limits",
        "_parser",
        "_read",
        "_reader",
        "_size",
        "call_extras",
    )

    def __init__(
        self,
        request: ClientRequest,
        profile: Profile,
        limits: Limits = Limits(),
        errors: ErrorReader | None = None,
        *,
        extras: bool = False,
    ) -> None:
        self._limits = limits
        self._errors = errors or ErrorReader(request, profile.errors)
        self._lifecycle = Lifecycle()
        demand = request.tool_choice if request.tool_choice in ("required", "named") and request.tool_names else None
        self._finish = Finish(self._lifecycle.feed, named_tool=request.named_tool, demand=demand)
        self.call_extras: dict[str, Any] = {}
        """What the server demands back with its calls, by their ids."""
        self._head = build_stages(request, profile, limits, self._finish.feed, self.call_extras)
        self._reader = ChunkReader(request, self._errors, self._head, self._fail)
        self._read = self._read_with_extras if extras else self._reader.read
        self._input = self._sniff
        self._document: list[bytes] = []  # the body so far, while it is or may be one JSON document
        self._size = 0
        self._clean_end: bool | None = None  # None: the body goes on
        self._parser = SSEParser(limits.event_bytes)

    @property
    def state(self) -> State:
        """How far the answer is."""
        return self._lifecycle.state

    @property
    def error(self) -> ProxyError | None:
        """Why the answer failed, if it did."""
        return self._lifecycle.error

    @property
    def pieces(self) -> int:
        """How many pieces of text and of calls came, those that are held back included: the server is at work."""
        return self._reader.pieces

    def receive_data(self, data: bytes) -> list[Event]:
        """The events that *data* completes."""
        if self._lifecycle.state not in OVER:
            self._input(data)
        return self._lifecycle.take()

    def receive_eof(self, clean: bool) -> list[Event]:
        """The events that the end of the body completes; call it once. *clean*: the HTTP body ended properly."""
        if self._lifecycle.state not in OVER:
            self._end(clean)
        return self._lifecycle.take()

    def fail(self, error: ProxyError) -> list[Event]:
        """The events of an answer that ends here for a reason outside of it: a time limit, a shutdown."""
        if self._lifecycle.state not in OVER:
            self._fail(error)
        return self._lifecycle.take()

    # ----------------------------------------------------------------- what kind of body it is

    def _sniff(self, data: bytes) -> None:
        """Wait for the bytes that tell a stream from a document."""
        self._document.append(data)
        self._size += len(data)
        body = b"".join(self._document)
        if body.startswith(_BOM):
            body = body[len(_BOM) :]
        elif _BOM.startswith(body):
            return
        start = body.lstrip(_BLANKS)
        if not start:
            self._document = [_BOM]  # blanks say nothing, and what follows them is no byte order mark
            return
        if start[:1] in b"{[":
            self._document = [start]
            self._size = len(start)
            self._input = self._grow_document
            self._check_document()
        elif _is_field(start):
            self._document = []
            self._input = self._stream
            self._stream(start)
        elif not any(name.startswith(start) for name in _FIELDS):
            self._document = [start]
            self._input = self._grow_page

    def _grow_document(self, data: bytes) -> None:
        self._document.append(data)
        self._size += len(data)
        self._check_document()

    def _check_document(self) -> None:
        if self._size > self._limits.answer_bytes:
            self._document = []
            self._fail(_too_large("answer", self._limits.answer_bytes, "max_answer_bytes"))

    def _grow_page(self, data: bytes) -> None:
        """Neither a stream nor JSON; a little of it is kept, for the message."""
        if sum(map(len, self._document)) < 2 * _EXCERPT:
            self._document.append(data[: 2 * _EXCERPT])

    # ----------------------------------------------------------------- a stream

    def _stream(self, data: bytes) -> None:
        for event in self._parser.feed(data):
            self._event(event)
            if self._lifecycle.state in OVER:
                return
        if self._parser.too_large:
            self._fail(_too_large("event", self._limits.event_bytes, "max_event_bytes"))

    def _event(self, event: ServerSentEvent) -> None:
        name, data = event
        try:
            if data[:1] != b"{":
                data = data.strip()
                if data == DONE.encode():
                    self._done()
                    return
                if (not data or data[:1] == b":") and name != b"error":
                    return
            try:
                chunk = loads(data)
            except ValueError:
                self._salvage(name, data)
                return
            self._read(chunk, name)
        except Unreadable as exc:
            self._fail(unreadable(str(exc)))

    def _salvage(self, name: bytes, data: bytes) -> None:
        """An event that is no JSON: several payloads that a server put into one, or an error in plain words."""
        if name == b"error":
            self._fail(self._errors.from_text(data))
            return
        try:
            payloads = read_payloads(data)
        except ValueError:
            if self._clean_end is not None:
                self._truncated(self._clean_end)  # half an event
            else:
                self._fail(unreadable(f"an event is no JSON: {self._excerpt(data)}"))
            return
        for payload in payloads:
            if self._lifecycle.state in OVER:
                return
            if payload is DONE:
                self._done()
            else:
                self._read(payload, name)

    def _read_with_extras(self, chunk: Any, event_name: bytes = b"") -> None:
        extras = read_extras(chunk)
        if extras:
            self._head(ExtrasReported(extras))
        self._reader.read(chunk, event_name)

    def _done(self) -> None:
        if self._reader.answered:
            self._complete()
        else:
            self._fail(unreadable("the stream ended with [DONE] before any answer"))

    # ----------------------------------------------------------------- the end

    def _end(self, clean: bool) -> None:
        if self._input == self._stream:
            self._clean_end = clean
            self._stream(b"\n\n")  # the last event may lack its empty line
            if self._lifecycle.state in OVER:
                return
            if clean and self._finish.seen:
                self._complete()
            else:
                self._truncated(clean)
        elif self._input == self._grow_document:
            self._end_document(clean)
        elif self._input == self._grow_page:
            self._fail(_no_answer(b"".join(self._document), self._errors))
        else:
            words = b"".join(self._document).strip(_BLANKS)
            if words and words not in (_BOM, _BOM[:1], _BOM[:2]):
                self._fail(_no_answer(words, self._errors))
            else:
                self._truncated(clean)

    def _end_document(self, clean: bool) -> None:
        body = b"".join(self._document)
        self._document = []
        try:
            answer = loads(body)
        except ValueError:
            if clean:
                self._fail(unreadable(f"the body is no JSON: {self._excerpt(body)}"))
            else:
                self._truncated(clean)
            return
        try:
            self._read(answer)
        except Unreadable as exc:
            self._fail(unreadable(str(exc)))
        if self._lifecycle.state in OVER:
            return
        if self._reader.answered:
            self._complete()
        else:
            self._fail(unreadable(f"the body has neither choices nor an error: {self._excerpt(body)}"))

    def _excerpt(self, data: bytes) -> str:
        """What an answer that cannot be read begins with; cut last, so that no half of a key is left."""
        return self._errors.scrub(data[: 4 * _EXCERPT].decode("utf-8", "replace"))[:_EXCERPT]

    def _truncated(self, clean: bool) -> None:
        how = "ended its answer" if clean else "broke the connection"
        what = "in the middle of it" if self._reader.answered else "before any of it came"
        end = "" if self._finish.seen else ", without a finish reason"
        self._fail(ProxyError("stream_truncated", f"The server {how} {what}{end} and without [DONE]."))

    def _complete(self) -> None:
        self._reader.finish()
        self._head(Ended())

    def _fail(self, error: ProxyError) -> None:
        if self._lifecycle.state is State.WAITING:
            # What was held back is no output, so that the failure keeps its status.
            self._lifecycle.feed(Failed(error))
        else:
            self._reader.finish()
            self._head(Failed(error))


def build_stages(
    request: ClientRequest, profile: Profile, limits: Limits, sink: Sink, call_extras: dict[str, Any] | None = None
) -> Sink:
    """The stages one answer needs, the last one feeding *sink*; returns where the first one is fed."""
    sink = ToolCalls(
        sink,
        tool_names=request.tool_names,
        taken_ids=request.call_ids,
        seed=request.id,
        limit=limits.held_characters,
        forbidden=request.tool_choice == "none",
        extras=call_extras,
    ).feed
    if request.tool_names and request.tool_choice != "none" and profile.response.text_calls:
        sink = TextCalls(sink, request.tool_parameters(), limits.held_characters).feed
    sink = ThinkTags(sink, preopened=profile.response.reasoning == "think_tags_preopened").feed
    if profile.response.content == "cumulative":
        sink = Cumulative(sink, limits.event_bytes).feed
    return sink


def _is_field(start: bytes) -> bool:
    """Whether *start* begins a line of an event stream."""
    name, colon, _ = start[:16].partition(b":")
    return bool(colon) and (not name or name in _FIELDS)


def _no_answer(body: bytes, errors: ErrorReader) -> ProxyError:
    words = errors.from_text(body).message
    return unreadable(f"the body is neither a stream nor JSON: {words[:_EXCERPT]}")


def _too_large(what: str, limit: int, setting: str) -> ProxyError:
    return ProxyError("upstream_bad_response", f"The server's {what} is larger than {limit} bytes (limits.{setting}).")
