"""Structured tool calls, as servers cut them, made calls that no client breaks on.

What comes in: pieces without index, all with index 0, indices from 1; ids missing, empty, repeated, or only on the
first piece; names split, repeated whole, empty on later pieces; arguments as an object, null, as a ``{}`` placeholder
before the real ones, or sent once more at the end; pieces of several calls interleaved; a call that is nothing at all.

What goes out: calls one after the other, each begun once its name is certain, with an id of its own, its arguments as
they arrive. A name is certain when it is a listed tool and no other listed tool extends it; otherwise it waits.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

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
from svir_proxy.response.json_scan import JsonScan
from svir_proxy.response.json_text import loads
from svir_proxy.response.stages.finish import canonical_reason
from svir_proxy.response.stages.stage import Sink

_PLACEHOLDER: Final = "{}"
_KEEP: Final = 1 << 20
"""Characters of a call's arguments that are remembered after they went out, to see a repetition of them."""


class _Call:
    """One call under way."""

    __slots__ = ("arguments", "id", "kept", "name", "name_over", "number", "scan", "sent", "size", "whole")

    def __init__(self) -> None:
        self.number = -1  # its index in the answer; -1: it has not gone out
        self.id = ""
        self.name = ""
        self.name_over = False  # arguments came without a name beside them: no more of it is to be expected
        self.arguments: list[str] = []
        self.size = 0  # characters of the arguments
        self.sent = 0  # pieces of them that went out
        self.kept = True  # the pieces that went out are still here
        self.scan = JsonScan()
        self.whole = False

    @property
    def complete(self) -> bool:
        """Whether nothing more of the arguments is to be expected."""
        return self.whole or self.scan.complete

    def text(self) -> str:
        """The arguments so far."""
        return "".join(self.arguments)


class ToolCalls:
    """Assembles the calls of one answer.

    Args:
        sink: Where events go.
        tool_names: The functions the request offers.
        taken_ids: Ids of calls in the history; none of them is used again.
        seed: Makes ids that the server did not give.
        limit: Characters of arguments that may be held back; beyond it the answer fails.
        forbidden: The request's ``tool_choice`` is ``none``: calls are passed on all the same, and noted.
    """

    __slots__ = (
        "_by_id",
        "_by_index",
        "_calls",
        "_cut",
        "_forbidden",
        "_head",
        "_held",
        "_limit",
        "_seed",
        "_sink",
        "_started",
        "_taken",
        "_tool_names",
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
    ) -> None:
        self._sink = sink
        self._tool_names = frozenset(tool_names)
        self._taken = set(taken_ids)
        self._seed = seed
        self._forbidden = forbidden
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._head = 0  # the call whose pieces may go out
        self._started = 0
        self._held = 0  # characters of arguments that have not gone out
        self._limit = limit
        self._cut = False  # the answer was cut short: incomplete arguments are what it is

    def feed(self, event: StageEvent) -> None:
        """Take the next event."""
        if isinstance(event, ToolCallPiece):
            self._piece(event)
            return
        if isinstance(event, Finished):
            self._cut = self._cut or canonical_reason(event.reason) in ("length", "content_filter")
        elif isinstance(event, FilterVerdict):
            self._cut = True
        elif isinstance(event, Ended):
            self._close()
        elif isinstance(event, Failed):
            self._release()
        self._sink(event)

    # ----------------------------------------------------------------- in

    def _piece(self, piece: ToolCallPiece) -> None:
        if not (piece.id or piece.name or piece.arguments):
            return
        call = self._find(piece)
        if call is None:
            call = _Call()
            self._calls.append(call)
        if piece.index is not None:
            self._by_index[piece.index] = call
        if piece.id and not call.id:
            call.id = piece.id
            self._by_id.setdefault(piece.id, call)
        self._add_name(call, piece)
        if piece.arguments:
            self._add_arguments(call, piece.arguments)
        call.whole = call.whole or (piece.whole and bool(call.name))
        self._advance()

    def _find(self, piece: ToolCallPiece) -> _Call | None:
        """The call that *piece* goes on with; None where it begins one."""
        if piece.index is not None:
            call = self._by_index.get(piece.index)
        else:
            call = self._by_id.get(piece.id)
            if call is None and self._calls and not (piece.id and self._calls[-1].id):
                call = self._calls[-1]
        if call is None or self._begins(call, piece):
            return None
        return call

    def _begins(self, call: _Call, piece: ToolCallPiece) -> bool:
        """Whether *piece*, which stands where *call* is, begins another call."""
        if piece.id and call.id and piece.id != call.id:
            return bool(piece.name) or call.complete
        if not piece.name or not call.name:
            return False
        if piece.name == call.name:
            if not call.complete or not piece.arguments.strip():
                return False  # the name once more, on a piece of the same call
            if piece.index is None and not piece.id:
                return True
            again = call.kept and len(piece.arguments) == call.size and piece.arguments == call.text()
            return not again and not _is_placeholder(call) and is_json(piece.arguments)
        if self._may_become(call.name + piece.name) or piece.name.startswith(call.name):
            return call.complete and piece.name in self._tool_names
        return call.complete or (call.number >= 0 and piece.name in self._tool_names)

    def _add_name(self, call: _Call, piece: ToolCallPiece) -> None:
        name = piece.name
        if not name:
            call.name_over = call.name_over or bool(piece.arguments)
        elif call.number >= 0 or (name == call.name and not self._may_become(call.name + name)):
            pass  # the whole name once more
        elif call.name and name.startswith(call.name) and not self._may_become(call.name + name):
            call.name = name  # the name so far, once more
        else:
            call.name += name

    def _add_arguments(self, call: _Call, text: str) -> None:
        if call.complete and call.kept:
            if len(text) == call.size and text == call.text():
                return  # sent once more (vLLM at the end of a stream, Rapid-MLX with the next call)
            if _is_placeholder(call) and not call.sent and text.strip():
                self._held -= call.size
                call.arguments, call.size, call.scan = [], 0, JsonScan()
        call.arguments.append(text)
        call.size += len(text)
        call.scan.feed(text)
        self._held += len(text)
        if self._held > self._limit:
            self._sink(
                Failed(
                    ProxyError(
                        "upstream_bad_response",
                        f"The server's tool calls hold more than {self._limit} characters that cannot be passed on yet"
                        " (limits.held_text_bytes).",
                    )
                )
            )

    # ----------------------------------------------------------------- out

    def _may_become(self, name: str) -> bool:
        return any(tool.startswith(name) for tool in self._tool_names)

    def _is_certain(self, call: _Call) -> bool:
        name = call.name
        if not name:
            return False
        if any(tool != name and tool.startswith(name) for tool in self._tool_names):
            return call.whole and name in self._tool_names
        return name in self._tool_names or call.whole or call.name_over

    def _advance(self) -> None:
        """Let out what can go out, call by call."""
        while self._head < len(self._calls):
            call = self._calls[self._head]
            if call.number < 0:
                if not self._is_certain(call):
                    return
                self._start(call)
            is_last = self._head == len(self._calls) - 1
            if not is_last and call.complete:
                self._end(call)
                self._head += 1
                continue
            if not _is_placeholder(call):
                self._send(call)
            return

    def _start(self, call: _Call) -> None:
        call.number = self._started
        self._started += 1
        identity = call.id
        if not identity or identity in self._taken:
            identity = f"call_{self._seed}{call.number}"
        self._taken.add(identity)
        if self._forbidden:
            self._sink(Noted("tool_choice.none=called"))
        if call.name not in self._tool_names:
            self._sink(Noted("tool_calls=unlisted"))
        self._sink(ToolCallStarted(call.number, identity, call.name))

    def _send(self, call: _Call) -> None:
        for text in call.arguments[call.sent :]:
            self._sink(ArgumentsDelta(call.number, text))
            self._held -= len(text)
        call.sent = len(call.arguments)
        if call.size > _KEEP:  # too much to remember what was already said
            call.arguments, call.sent, call.kept = [], 0, False

    def _end(self, call: _Call) -> None:
        """A call is over: what is left of it goes out."""
        self._send(call)
        if call.size == 0 and not self._cut:
            self._sink(ArgumentsDelta(call.number, _PLACEHOLDER))
        elif call.kept and not self._cut and not is_json(call.text()):
            self._sink(Noted("tool_calls.arguments=not_json"))

    def _close(self) -> None:
        """The answer is complete: so are its calls."""
        for call in self._calls[self._head :]:
            if call.name:
                if call.number < 0:
                    self._start(call)
                self._end(call)
            elif call.size:  # arguments of nothing: the server's words all the same
                self._sink(Noted("tool_calls=nameless"))
                self._sink(ContentDelta(call.text()))

    def _release(self) -> None:
        """The answer failed: what is certain of its calls goes out as far as it came."""
        for call in self._calls[self._head :]:
            if call.number < 0:
                if not self._is_certain(call):
                    return
                self._start(call)
            self._send(call)


def _is_placeholder(call: _Call) -> bool:
    return call.size == 2 and not call.sent and call.text() == _PLACEHOLDER


def is_json(text: str) -> bool:
    """Whether *text* is one JSON value."""
    try:
        loads(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return False
    return True
