"""An upstream's 200, whatever is in it, as canonical events: the whole way down behind a few methods.

Bytes are told apart by how they begin, not by their content type: a stream under ``application/json`` is read as a
stream, JSON under ``text/event-stream`` as JSON, and HTML is a page somebody put in front of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson

from svir_proxy.bulk import MOST_VALUES
from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.profiles.schema import Profile
from svir_proxy.response.chunk_frame import ChunkFrame
from svir_proxy.response.chunk_reader import ChunkReader, unreadable
from svir_proxy.response.events import Ended, Event, ExtrasReported, Failed
from svir_proxy.response.extras import read_extras
from svir_proxy.response.json_text import loads, loads_leniently
from svir_proxy.response.lifecycle import OVER, Lifecycle, State
from svir_proxy.response.payloads import DONE, read_payloads
from svir_proxy.response.plain_answer import read_plain
from svir_proxy.response.sse import SSEParser
from svir_proxy.response.stages.cumulative import Cumulative
from svir_proxy.response.stages.finish import Finish
from svir_proxy.response.stages.text_calls import TextCalls
from svir_proxy.response.stages.think_tags import ThinkTags
from svir_proxy.response.stages.tool_calls import ToolCalls
from svir_proxy.response.upstream_error import ErrorReader

_DONE: Final = DONE.encode()
_BOM: Final = b"\xef\xbb\xbf"
_BLANKS: Final = b" \t\r\n"
_FIELDS: Final = (b"data", b"event", b"id", b"retry")
_EXCERPT: Final = 200
"""Characters of an answer that cannot be read, for the message."""
_LONG: Final = 2
"""Pieces after which a stream is taken for a long one, whose chunks repeat each other."""
_PAGE: Final = 8192
"""Bytes of a page whose words are looked for, however it was cut."""


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
    comes out. *errors* makes what reads the server's errors, as soon as there is one; without it the profile's rules
    do. With *extras* what is outside of the protocol comes as `ExtrasReported`.
    """

    __slots__ = (
        *("_begun", "_body", "_body_ended", "_calls", "_errors", "_extras", "_finish", "_frame", "_head"),
        *("_limits", "_parser", "_profile", "_reader", "_repeats", "_request", "_size", "_take", "_think"),
        *("can_learn", "lifecycle", "pieces"),
    )

    def __init__(
        self,
        request: ClientRequest,
        profile: Profile,
        limits: Limits = Limits(),
        errors: Callable[[], ErrorReader] | None = None,
        *,
        extras: bool = False,
    ) -> None:
        self._limits = limits
        self._errors = errors or partial(ErrorReader, request, profile.errors)
        self._extras = extras
        self._request = request
        self._profile = profile
        self.lifecycle = Lifecycle()
        """How far the answer is, and why it failed."""
        self.pieces = 0
        """How many pieces of text and of calls came with `receive_data`, those that are held back included.

        While they do, the server is at work.
        """
        self.can_learn = False
        """Whether `learn` has anything to do."""
        # What reads chunks; not made for an answer that is read in one look.
        self._reader: ChunkReader | None = None
        self._frame: ChunkFrame | None = None  # what they repeat, once there are enough of them
        self._repeats: ChunkFrame | None = None  # the same, where what comes next begins an event
        self._think: ThinkTags | None = None  # the first stage, as long as text has to pass it
        # What takes the bytes: a function and no method, which would tie the normalizer to itself.
        self._take: Callable[[StreamNormalizer, bytes], None] = StreamNormalizer._sniff
        self._begun = b""  # the body so far, until it is known what it is
        self._size = 0
        self._body_ended: bool | None = None  # whether cleanly; None: the body goes on

    @property
    def state(self) -> State:
        """How far the answer is."""
        return self.lifecycle.state

    @property
    def error(self) -> ProxyError | None:
        """Why the answer failed, if it did."""
        return self.lifecycle.error

    @property
    def call_extras(self) -> Mapping[str, Any]:
        """What the server demands back with its calls, by their ids."""
        return {} if self._reader is None else self._calls.extras

    def receive_data(self, data: bytes) -> list[Event]:
        """The events that *data* completes."""
        lifecycle = self.lifecycle
        if lifecycle.state not in OVER:
            try:
                # Nearly every read is one event that repeats the one before it in all but the text.
                if self._repeats is None or not self._repeats.read(data):
                    self._take(self, data)
            except ProxyError as error:
                self._fail(error)
            reader = self._reader
            if reader is not None:
                self.pieces = reader.pieces
        events, lifecycle.events = lifecycle.events, None  # `take`, without the call
        return events or []

    def learn(self) -> None:
        """Make ready for more of what came last; for when nobody waits for anything that came."""
        self.can_learn = False
        if self._frame is not None:
            self._frame.settle()

    def receive_eof(self, clean: bool) -> list[Event]:
        """The events that the end of the body completes; call it once. *clean*: the HTTP body ended properly."""
        if self.lifecycle.state not in OVER:
            self._body_ended = clean
            try:
                self._end(clean)
            except ProxyError as error:
                self._fail(error)
        return self.lifecycle.take()

    def receive_whole(self, body: bytes) -> list[Event]:
        """All the events of an answer whose *body* is at hand and ended properly; in place of the two above."""
        if body[:1] != b"{" or len(body) > self._limits.answer_bytes:
            return self.receive_data(body) + self.receive_eof(clean=True)
        lifecycle = self.lifecycle
        try:
            self._read_document(body, clean=True)
        except ProxyError as error:
            self._fail(error)
        events, lifecycle.events = lifecycle.events, None  # `take`, without the call
        return events or []

    def fail(self, error: ProxyError) -> list[Event]:
        """The events of an answer that ends here for a reason outside of it: a time limit, a shutdown."""
        if self.lifecycle.state not in OVER:
            self._fail(error)
        return self.lifecycle.take()

    def _make_reader(self) -> ChunkReader:
        """The reader of chunks, and the stages behind it."""
        request, response, limit = self._request, self._profile.response, self._limits.held_characters
        texts = self.lifecycle.feed  # where text goes that no stage on its way is concerned with
        demand = request.tool_choice if request.tool_choice in ("required", "named") and request.tool_names else None
        self._finish = Finish(texts, named_tool=request.named_tool, demand=demand)
        self._calls = ToolCalls(
            self._finish.feed,
            tool_names=request.tool_names,
            taken_ids=request.call_ids,
            seed=request.id,
            limit=limit,
            forbidden=request.tool_choice == "none",
            texts=texts,
        )
        head = self._calls.feed
        if request.tool_names and request.tool_choice != "none" and response.text_calls:
            head = texts = TextCalls(head, request.tool_parameters(), limit, texts=texts).feed
        think = ThinkTags(head, preopened=response.reasoning == "think_tags_preopened", texts=texts)
        head = think.feed
        if response.content == "cumulative":
            head = Cumulative(head, self._limits.event_bytes).feed
        else:
            self._think = think
        self._head = head
        self._reader = ChunkReader(request, self._errors, self._head, self.lifecycle.feed)
        return self._reader

    # What follows raises ProxyError where the answer has failed.

    # ----------------------------------------------------------------- what kind of body it is

    def _sniff(self, data: bytes) -> None:
        """Wait for the bytes that tell a stream from a document."""
        data = self._begun + data
        if data.startswith(_BOM):
            start = data[len(_BOM) :].lstrip(_BLANKS)
        elif _BOM.startswith(data):
            self._begun = data
            return
        else:
            start = data.lstrip(_BLANKS)
        if not start:
            self._begun = _BOM  # blanks say nothing, and what follows them is no byte order mark
        elif start[0] in b"{[":
            self._body: list[bytes] = []
            self._take = StreamNormalizer._grow_document
            self._grow_document(start)
        elif start[:5] == b"data:" or _is_field(start):
            self._begun = b""
            self._parser = SSEParser(self._limits.event_bytes)
            self._take = StreamNormalizer._stream
            self._make_reader()
            self._stream(start)
        elif any(name.startswith(start) for name in _FIELDS):
            self._begun = data
        else:
            self._body = []
            self._take = StreamNormalizer._grow_page
            self._grow_page(start)

    def _grow_document(self, data: bytes) -> None:
        self._body.append(data)
        self._size += len(data)
        if self._size > self._limits.answer_bytes:
            self._body = []
            raise _too_large("answer", self._limits.answer_bytes, "max_answer_bytes")

    def _grow_page(self, data: bytes) -> None:
        """Neither a stream nor JSON; a little of it is kept, for the message."""
        room = _PAGE - self._size
        if room > 0:
            self._body.append(data[:room])
            self._size += len(data)

    # ----------------------------------------------------------------- a stream

    def _stream(self, data: bytes) -> None:
        parser = self._parser
        events = parser.feed(data)
        self._repeats = None
        if not events and not parser.too_large:
            return  # a piece of one
        lifecycle, frame, reader = self.lifecycle, self._frame, self._reader
        assert reader is not None
        for name, payload in events:
            if payload == _DONE and not name:
                self._done()
            elif frame is None or name or not frame.read(b"data: %b\n\n" % payload):
                try:
                    chunk = orjson.loads(payload) if len(payload) <= MOST_VALUES else loads(payload)
                except ValueError:
                    self._read_odd(payload, name)
                else:
                    if self._extras:  # which are told again with each chunk
                        self._read(chunk, name)
                    else:
                        reader.read(chunk, name)
                        if reader.pieces >= _LONG:
                            frame = self._frame = frame or ChunkFrame(reader, self._limits.event_bytes)
                            frame.learn(payload)
                            self.can_learn = True
            if lifecycle.state in OVER:
                return
        if parser.is_between:
            self._repeats = frame
        if self._think is not None and self._think.is_off:
            reader.texts, self._think = self._think.texts, None
        if parser.too_large:
            raise _too_large("event", self._limits.event_bytes, "max_event_bytes")

    def _read(self, chunk: Any, event_name: bytes = b"") -> None:
        if self._extras:
            extras = read_extras(chunk)
            if extras:
                self._head(ExtrasReported(extras))
        assert self._reader is not None
        self._reader.read(chunk, event_name)

    def _read_odd(self, data: bytes, name: bytes) -> None:
        """An event that is no JSON by the book: the end of the stream, a comment, JSON with a fault."""
        if data[:1] != b"{":
            data = data.strip()
        if data == _DONE:
            self._done()
        elif name == b"error" or (data and data[:1] != b":"):
            try:
                chunk = loads_leniently(data)
            except ValueError:
                self._salvage(data, name)
            else:
                self._read(chunk, name)

    def _salvage(self, data: bytes, name: bytes) -> None:
        """An event that is no JSON: several payloads that a server put into one, or an error in plain words."""
        if name == b"error":
            raise self._errors().from_text(data)
        try:
            payloads = read_payloads(data)
        except ValueError:
            if self._body_ended is not None:
                raise self._truncated(self._body_ended) from None  # half an event
            raise unreadable(f"an event is no JSON: {self._excerpt(data)}") from None
        for payload in payloads:
            if self.lifecycle.state in OVER:
                return
            if payload is DONE:
                self._done()
            else:
                self._read(payload, name)

    def _done(self) -> None:
        if not self._answered:
            raise unreadable("the stream ended with [DONE] before any answer")
        self._complete()

    # ----------------------------------------------------------------- the end

    def _end(self, clean: bool) -> None:
        if self._take is StreamNormalizer._stream:
            self._stream(b"\n\n")  # the last event may lack its empty line
            if self.lifecycle.state in OVER:
                return
            if not clean or not self._finish.seen:
                raise self._truncated(clean)
            self._complete()
        elif self._take is StreamNormalizer._grow_document:
            body, self._body = self._body, []
            self._read_document(body[0] if len(body) == 1 else b"".join(body), clean)
        elif self._take is StreamNormalizer._grow_page:
            raise _no_answer(b"".join(self._body), self._errors())
        else:
            words = self._begun.strip(_BLANKS)
            if clean and words and words not in (_BOM, _BOM[:1], _BOM[:2]):
                raise _no_answer(words, self._errors())  # broken off, it was the first field of a stream
            raise self._truncated(clean)

    def _read_document(self, body: bytes, clean: bool) -> None:
        try:
            answer = loads(body)
        except ValueError:
            if clean:
                raise unreadable(f"the body is no JSON: {self._excerpt(body)}") from None
            raise self._truncated(clean) from None
        if not self._extras and (events := read_plain(answer, self._request, self._profile)):
            self.lifecycle.complete(events)
            return
        self._make_reader()
        self._read(answer)
        if self.lifecycle.state in OVER:
            return
        if not self._answered:
            raise unreadable(f"the body has neither choices nor an error: {self._excerpt(body)}")
        self._complete()

    def _excerpt(self, data: bytes) -> str:
        """What an answer that cannot be read begins with; cut last, so that no half of a key is left."""
        return self._errors().scrub(data[: 4 * _EXCERPT].decode("utf-8", "replace"))[:_EXCERPT]

    def _truncated(self, clean: bool) -> ProxyError:
        how = "ended its answer" if clean else "broke the connection"
        what = "in the middle of it" if self._answered else "before any of it came"
        end = "" if self._reader is not None and self._finish.seen else ", without a finish reason"
        return ProxyError("stream_truncated", f"The server {how} {what}{end} and without [DONE].")

    @property
    def _answered(self) -> bool:
        """Whether anything of an answer came."""
        return self._reader is not None and self._reader.answered

    def _complete(self) -> None:
        assert self._reader is not None
        self._reader.finish()
        self._head(Ended())

    def _fail(self, error: ProxyError) -> None:
        error.__traceback__ = error.__context__ = None  # their frames would tie the normalizer to itself
        failed = Failed(error)
        if self._reader is None or self.lifecycle.state is State.WAITING:
            # What was held back is no output, so that the failure keeps its status.
            self.lifecycle.feed(failed)
        else:
            self._reader.finish()
            self._head(failed)


def _is_field(start: bytes) -> bool:
    """Whether *start* begins a line of an event stream."""
    name, colon, _ = start[:16].partition(b":")
    return bool(colon) and (not name or name in _FIELDS)


def _no_answer(body: bytes, errors: ErrorReader) -> ProxyError:
    words = errors.from_text(body).message
    return unreadable(f"the body is neither a stream nor JSON: {words[:_EXCERPT]}")


def _too_large(what: str, limit: int, setting: str) -> ProxyError:
    return ProxyError("upstream_bad_response", f"The server's {what} is larger than {limit} bytes (limits.{setting}).")
