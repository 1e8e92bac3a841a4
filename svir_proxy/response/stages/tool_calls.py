"""Structured tool calls, as servers cut them, made calls that no client breaks on.

What comes in: pieces without index, all with index 0, indices from 1; ids missing, empty, repeated, or only on the
first piece; names split, repeated whole, empty on later pieces; arguments as an object, null, as a ``{}`` placeholder
before the real ones, or sent once more at the end; pieces of several calls interleaved; a call that is nothing at all.

What goes out: calls one after the other, each begun once its name is certain, with an id of its own, its arguments as
they arrive. A name is certain when it is a listed tool and no other listed tool extends it; otherwise it waits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from svir_proxy.errors import ProxyError
from svir_proxy.response.events import (
    ArgumentsDelta,
    ContentDelta,
    Ended,
    Failed,
    FilterVerdict,
    Finished,
    Noted,
    StageEvent,
    ToolCallPiece,
    ToolCallStarted,
)
from svir_proxy.response.stages.finish import canonical_reason
from svir_proxy.response.stages.stage import Sink
from svir_proxy.response.stages.tool_call import PLACEHOLDER, Call, is_json

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_CALL: Final = 100
"""What a call takes beside its text, in characters: no server may send calls without end."""


class ToolCalls:
    """Assembles the calls of one answer; until the first of them comes it holds next to nothing.

    Args:
        sink: Where events go.
        tool_names: The functions the request offers.
        taken_ids: Ids of calls in the history; none of them is used again.
        seed: Makes ids that the server did not give.
        limit: Characters that may be held: arguments that wait, and what is remembered of every call. Beyond it the
            answer fails.
        forbidden: The request's ``tool_choice`` is ``none``: calls are passed on all the same, and noted.
        texts: Where arguments and text go, which the stages in between are not concerned with; None: to *sink*.
    """

    __slots__ = (
        *("_begun", "_by_id", "_by_index", "_calls", "_cut", "_extras", "_forbidden", "_head", "_held", "_limit"),
        *("_listed", "_noted", "_seed", "_sink", "_started", "_taken", "_taken_ids", "_texts", "_tool_names", "extras"),
    )

    def __init__(
        self,
        sink: Sink,
        *,
        tool_names: Collection[str],
        taken_ids: Collection[str],
        seed: str,
        limit: int,
        forbidden: bool = False,
        texts: Sink | None = None,
    ) -> None:
        self._sink = sink
        self._texts = texts or sink
        self._listed = tool_names
        self._taken_ids = taken_ids
        self._seed = seed
        self._limit = limit
        self._forbidden = forbidden
        self._begun = False
        self._cut = False  # the answer was cut short: incomplete arguments are what it is
        self.extras: Mapping[str, Any] = _NOTHING
        """What the server demands back with its calls, by their ids."""

    def _begin(self) -> None:
        """The first piece of a call has come."""
        self._begun = True
        self._tool_names = frozenset(self._listed)
        self._taken = set(self._taken_ids)
        self._calls: list[Call] = []
        self._by_index: dict[int, Call] = {}
        self._by_id: dict[str, Call] = {}
        self._head = 0  # the call whose pieces may go out
        self._started = 0
        self._held = 0
        self._noted: set[str] = set()
        self._extras: dict[str, Any] = {}
        self.extras = self._extras

    def feed(self, event: StageEvent) -> None:
        """Take the next event."""
        if type(event) is ToolCallPiece:
            self._piece(event)
            return
        if type(event) is Finished:
            self._cut = self._cut or canonical_reason(event.reason) in ("length", "content_filter")
        elif type(event) is FilterVerdict:
            self._cut = True
        elif self._begun:
            if type(event) is Ended:
                self._close()
            elif type(event) is Failed:
                self._release()
        self._sink(event)

    # ----------------------------------------------------------------- in

    def _piece(self, piece: ToolCallPiece) -> None:
        if not (piece.id or piece.name or piece.arguments):
            return
        if not self._begun:
            self._begin()
        call = self._find(piece)
        if call is None or self._begins(call, piece):
            again = call is not None and call.name.text == piece.name and piece.id in ("", call.id)
            call = Call(self._tool_names)
            call.is_again = again
            self._calls.append(call)
            self._held += _CALL
        if piece.index is not None:
            self._by_index[piece.index] = call
        if piece.id and not call.id:
            call.id = piece.id
            self._by_id[piece.id] = call
            self._held += len(piece.id)
        if piece.extra is not None:
            call.extra = piece.extra
        self._add_name(call, piece)
        if piece.arguments:
            self._add_arguments(call, piece.arguments)
        call.whole = call.whole or (piece.whole and call.name.size > 0)
        self._advance()
        if self._held > self._limit:
            self._sink(Failed(_too_much(self._limit)))

    def _find(self, piece: ToolCallPiece) -> Call | None:
        """The call that stands where *piece* does."""
        if piece.index is None:
            call = self._by_id.get(piece.id, self._calls[-1] if self._calls else None)
        else:
            call = self._by_index.get(piece.index)
            if call is not None and call.id and piece.id not in ("", call.id):
                call = self._by_id.get(piece.id, call)  # every call has index 0, and pieces come mixed
        return call

    def _begins(self, call: Call, piece: ToolCallPiece) -> bool:
        """Whether *piece*, which stands where *call* is, begins another call."""
        name = piece.name
        if piece.id and call.id and piece.id != call.id:
            return bool(name) or call.is_complete
        if not name or not call.name.size:
            return False
        if not call.name.begins(name):
            if call.name.can_go_on(name):
                return call.is_complete and name in self._tool_names
            return call.is_complete or (call.number >= 0 and name in self._tool_names)
        if len(name) > call.name.size:
            return call.is_complete and name in self._tool_names
        if not call.is_complete:
            return False  # the name once more, on a piece of the same call
        arguments = piece.arguments.strip()
        if arguments and piece.index is None and not piece.id:
            return True
        is_more = not piece.arguments or arguments.startswith("{")
        return is_more and not call.says(piece.arguments) and not call.is_placeholder

    def _add_name(self, call: Call, piece: ToolCallPiece) -> None:
        if not piece.name:
            call.name_over = call.name_over or bool(piece.arguments)
        elif call.number < 0:
            self._held -= call.name.size
            call.name.add(piece.name)
            self._held += call.name.size

    def _add_arguments(self, call: Call, text: str) -> None:
        if call.is_complete:
            if call.says(text):
                return  # sent once more (vLLM at the end of a stream, Rapid-MLX with the next call)
            if call.has_ended:
                if text.strip():
                    self._note("tool_calls.arguments=late")
                return
            if call.is_placeholder and text.strip():
                self._held -= call.size
                call.drop_placeholder()
        call.add(text)
        self._held += len(text)

    # ----------------------------------------------------------------- out

    def _is_certain(self, call: Call) -> bool:
        name = call.name
        if call.is_doubtful or not name.size:
            return False
        if name.is_open:
            return call.whole and name.is_listed
        return name.is_listed or call.whole or call.name_over

    def _advance(self) -> None:
        """Let out what can go out, call by call; the last one stays the head."""
        while True:
            call = self._calls[self._head]
            is_last = self._head == len(self._calls) - 1
            if call.is_doubtful and not is_last:
                self._head += 1
                continue
            if call.number < 0:
                if not self._is_certain(call):
                    return
                self._start(call)
            if not is_last and call.is_complete and call.size and not call.is_placeholder:
                self._end(call)
                self._head += 1
                continue
            if not call.is_placeholder:
                self._send(call)
            return

    def _start(self, call: Call) -> None:
        call.number = self._started
        self._started += 1
        identity = call.id
        if not identity or identity in self._taken:
            identity = f"call_{self._seed}{call.number}"
            while identity in self._taken:
                identity += "_"
        self._taken.add(identity)
        if call.extra is not None:
            self._extras[identity] = call.extra
        name = call.name.text
        if self._forbidden:
            self._note("tool_choice.none=called")
        if name not in self._tool_names:
            self._note("tool_calls=unlisted")
        self._sink(ToolCallStarted(call.number, identity, name))

    def _send(self, call: Call) -> None:
        for text in call.take():
            self._texts(ArgumentsDelta(call.number, text))
            self._held -= len(text)

    def _end(self, call: Call) -> None:
        """A call is over: what is left of it goes out."""
        self._send(call)
        text = call.end()
        if text is None or self._cut:
            return
        if not text.strip():
            self._texts(ArgumentsDelta(call.number, PLACEHOLDER))
        elif not is_json(text):
            self._note("tool_calls.arguments=not_json")

    def _note(self, note: str) -> None:
        """Say *note*, once for the whole answer."""
        if note not in self._noted:
            self._noted.add(note)
            self._sink(Noted(note))

    def _close(self) -> None:
        """The answer is complete: so are its calls."""
        for call in self._calls[self._head :]:
            if call.name.size and not call.is_doubtful:
                if call.number < 0:
                    self._start(call)
                self._end(call)
            elif call.size:  # arguments of nothing: the server's words all the same
                self._note("tool_calls=nameless")
                self._texts(ContentDelta(call.text()))

    def _release(self) -> None:
        """The answer failed: what is certain of its calls goes out as far as it came."""
        for call in self._calls[self._head :]:
            if call.number < 0:
                if not self._is_certain(call):
                    return
                self._start(call)
            self._send(call)


def _too_much(limit: int) -> ProxyError:
    return ProxyError(
        "upstream_bad_response",
        f"The server's tool calls are more than the {limit} characters that may be held of them"
        " (limits.held_text_bytes).",
    )
