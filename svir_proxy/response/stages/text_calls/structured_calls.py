"""The structured calls of an answer, remembered to know a call written as text again.

text-generation-webui sends a call's markup as content and the same call as ``tool_calls``: it is one call. Only
equality of name and arguments counts, so pieces are put together loosely; the stage after this one does it exactly.
"""

from __future__ import annotations

import json
from io import StringIO

from svir_proxy.response.events import ToolCallPiece
from svir_proxy.response.stages.text_calls.call import Call


class _Structured:
    __slots__ = ("arguments", "id", "names")

    def __init__(self) -> None:
        self.id = ""
        self.names: list[str] = []
        self.arguments = StringIO()


class StructuredCalls:
    """Pieces of structured calls put together, as far as *limit* characters of arguments go."""

    __slots__ = ("_calls", "_indexed", "_left")

    def __init__(self, limit: int) -> None:
        self._calls: list[_Structured] = []
        self._indexed: dict[int, _Structured] = {}
        self._left = limit

    def add(self, piece: ToolCallPiece) -> None:
        """Remember the next piece."""
        self._left -= len(piece.arguments)
        if self._left < 0:
            return
        call = self._call_of(piece)
        call.id = call.id or piece.id
        if piece.name and piece.name not in call.names[:1]:  # some servers repeat the name with each piece
            call.names.append(piece.name)
        call.arguments.write(piece.arguments)

    def strangers(self, calls: list[Call]) -> list[Call]:
        """Those of *calls* that did not come structured too."""
        known = {("".join(call.names), _canonical(call.arguments.getvalue())) for call in self._calls}
        return [call for call in calls if (call.name, _canonical(call.arguments)) not in known] if known else calls

    def _call_of(self, piece: ToolCallPiece) -> _Structured:
        known = self._calls[-1] if self._calls else None
        if piece.index is not None:
            known = self._indexed.get(piece.index)
        if known is None or piece.whole or (piece.id and known.id and piece.id != known.id):
            known = _Structured()
            self._calls.append(known)
            if piece.index is not None:
                self._indexed[piece.index] = known
        return known


def _canonical(arguments: str) -> str:
    """The same text for the same JSON; *arguments* themselves where they are none."""
    try:
        return json.dumps(json.loads(arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
