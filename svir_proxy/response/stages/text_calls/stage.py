"""Tool calls written as text, made into calls.

Servers without a parser for their model's format, or whose parser failed (llama.cpp, vLLM, LM Studio, Ollama, mlx),
send the call as content. A text is made a call only if it is a whole call of a listed tool: a mention in prose, in
backticks or a code block, an unlisted name, an unfinished call, and anything in reasoning stay what they are.

Text is kept to the byte, white space before calls too. White space between calls and behind the last is markup and goes
with them; followed by more text it stays (mlx-lm's ``call, LF, text``). Calls wait for the end of the answer, because
text-generation-webui sends the same call structured after its text; nothing a client does depends on them earlier.

No more is held back than could still be a call. A call beyond the limit is let go as text, and so is all behind it:
what stands inside its arguments must not be taken for another one. The same after more markers than any answer has
calls: a text that is nothing but markers would keep the loop busy. What one piece of text lets go leaves in one piece.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from svir_proxy.response.events import ContentDelta, Ended, Failed, Noted, StageEvent, ToolCallPiece
from svir_proxy.response.stages.stage import Sink
from svir_proxy.response.stages.text_calls.call import Call, Tools
from svir_proxy.response.stages.text_calls.formats import CLOSERS, MARKERS, OPENINGS, Grammar
from svir_proxy.response.stages.text_calls.reader import Parse, Reader, Rejected
from svir_proxy.response.stages.text_calls.structured_calls import StructuredCalls

_T = TypeVar("_T")
_FENCE: Final = "```"
_SOUGHT: Final = sorted((*MARKERS, _FENCE), key=len, reverse=True)
_MARKER: Final = re.compile("|".join(map(re.escape, _SOUGHT)))
_BEGUN: Final = frozenset(marker[:size] for marker in _SOUGHT for size in range(1, len(marker)))
_FIRST: Final = re.compile("[" + re.escape("".join({marker[0] for marker in _SOUGHT})) + "]")
_LONGEST: Final = len(_SOUGHT[0])
_MOST_MARKERS: Final = 1000
"""Of one answer, that are looked behind for a call."""


class _TooLong(Exception):  # noqa: N818 - a turn in the reading, not an error
    """What is held is longer than the limit, or there are too many markers."""


class TextCalls:
    """Finds calls in the content and hands them on as whole pieces, at the answer's end.

    Args:
        sink: Takes the events.
        tools: The listed tools: each name with the JSON schema of its parameters.
        limit: Characters held back at most.
        texts: Takes text, where the stages in between are not concerned with it; None: *sink* does.
    """

    __slots__ = (
        *("_blank", "_calls", "_calls_size", "_fences", "_flowing", "_let_go", "_limit"),
        *("_markers", "_reader", "_reading", "_sink", "_structured", "_texts", "_ticks", "_tools"),
    )

    def __init__(
        self, sink: Sink, tools: Mapping[str, Mapping[str, Any]], limit: int = 1 << 20, *, texts: Sink | None = None
    ) -> None:
        self._sink = sink
        self._texts = texts or sink
        self._tools = Tools(tools)
        self._limit = limit
        self._reader = Reader()
        self._reading = self._read()
        self._structured = StructuredCalls(limit)
        self._calls: list[Call] = []
        self._calls_size = 0
        self._markers = 0  # that were looked behind
        self._let_go: list[str] = []  # text on its way out
        self._flowing = False  # nothing is held, and only a marker's first character can change that
        self._blank = ""  # white space behind a call, text only if text follows
        self._fences = 0  # of code blocks, in what was let go
        self._ticks = 0  # backticks in its last line

    def feed(self, event: StageEvent) -> None:
        """Take the next event."""
        if type(event) is ContentDelta:
            if self._flowing and not _FIRST.search(event.text):
                if self._ticks and "\n" in event.text:
                    self._ticks = 0
                self._texts(event)
            else:
                self._reader.feed(event.text)
                next(self._reading, None)
                self._flush()
            return
        if type(event) is ToolCallPiece:
            self._structured.add(event)
        elif type(event) is Ended or type(event) is Failed:
            self._reader.ended = True
            next(self._reading, None)
            self._hand_on_calls()
        self._sink(event)

    def _read(self) -> Parse[None]:
        """All the content, from its first character to its last."""
        reader = self._reader
        yield from self._read_leading_spaces()
        reader.hold()
        grammar = OPENINGS.get((yield from reader.one_of(*OPENINGS)))
        try:
            while True:
                if grammar is None:
                    grammar = yield from self._read_prose()
                if grammar is None:
                    return
                yield from self._read_calls(grammar)
                grammar = None
        except _TooLong:
            while True:
                reader.at = len(reader.text)
                self._emit(reader.held())
                reader.hold()
                yield

    def _read_leading_spaces(self) -> Parse[None]:
        """Let the white space go that the content begins with."""
        reader = self._reader
        while not reader.ended:
            rest = reader.text[reader.at :]
            spaces = len(rest) - len(rest.lstrip(" \t\r\n"))
            self._emit(rest[:spaces])
            reader.at += spaces
            reader.hold()
            if spaces < len(rest):
                return
            yield

    def _read_prose(self) -> Parse[Grammar | None]:
        """Let text go up to the next marker of a call, and take the marker; None at the end."""
        reader = self._reader
        while True:
            text, at = reader.text, reader.at
            found = _MARKER.search(text, at)
            if found is not None and found.start() <= len(text) - _LONGEST:
                cut, marker = found.start(), found[0]  # nothing begins before it
            else:
                begun = len(text) if reader.ended else _begun(text, at)
                cut, marker = (begun, "") if found is None or begun <= found.start() else (found.start(), found[0])
            self._emit(text[at:cut])
            reader.at = cut
            reader.hold()
            reader.at += len(marker)
            if marker in MARKERS and not self._fences % 2 and not self._ticks % 2:
                return MARKERS[marker]
            if marker:
                self._emit(marker)
                reader.hold()
            elif reader.ended:
                return None
            else:
                self._flowing = cut == len(text) and not self._blank
                yield
                self._flowing = False

    def _read_calls(self, grammar: Grammar) -> Parse[None]:
        """Read what stands behind a marker, and the markup behind the calls."""
        reader = self._reader
        self._markers += 1
        if self._markers > _MOST_MARKERS:
            raise _TooLong
        try:
            calls = yield from self._within_limit(grammar(reader, self._tools))
        except Rejected:
            self._emit(reader.held())
            return
        self._blank = ""
        self._calls += calls
        self._calls_size += reader.held_size
        if self._calls_size > self._limit:
            self._hand_on_calls()
        reader.hold()
        yield from self._within_limit(reader.spaces())
        while (yield from reader.one_of(*CLOSERS)):
            reader.hold()
            yield from self._within_limit(reader.spaces())
        self._blank = reader.held()
        reader.hold()

    def _within_limit(self, part: Parse[_T]) -> Parse[_T]:
        """Read *part*; the limit counts the same however the text is cut."""
        try:
            while True:
                next(part)
                if self._reader.held_size > self._limit:
                    raise _TooLong
                yield
        except StopIteration as done:
            if self._reader.held_size > self._limit:
                raise _TooLong from None
            result: _T = done.value
            return result
        except Rejected:
            if self._reader.held_size > self._limit:
                raise _TooLong from None
            raise

    def _emit(self, text: str) -> None:
        if text:
            text, self._blank = self._blank + text, ""
            self._fences += text.count(_FENCE)
            line = text.rfind("\n")
            self._ticks = text.count("`", line + 1) + (self._ticks if line < 0 else 0)
            self._let_go.append(text)

    def _flush(self) -> None:
        if self._let_go:
            text, self._let_go = "".join(self._let_go), []
            self._texts(ContentDelta(text))

    def _hand_on_calls(self) -> None:
        self._flush()
        calls = self._structured.strangers(self._calls)
        self._calls, self._calls_size = [], 0
        if calls:
            self._sink(Noted("tool_calls=written_as_text"))
        for call in calls:
            self._sink(ToolCallPiece(None, "", call.name, call.arguments, whole=True))


def _begun(text: str, at: int) -> int:
    """Where the end of *text* may begin a marker; its length where it begins none."""
    for first in _FIRST.finditer(text, max(at, len(text) - _LONGEST + 1)):
        if text[first.start() :] in _BEGUN:
            return first.start()
    return len(text)
