"""What a server demands back with a call, kept for the next turn.

Gemini's endpoint gives each call an ``extra_content`` with a signature of its thought, and refuses a history without
it. Clients drop what they do not know, so the proxy keeps it, by backend and call id, in bounded memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from svir_proxy.client_request import Body
from svir_proxy.request.context import map_messages
from svir_proxy.response.json_text import dumps

_ENTRIES: Final = 10_000
_LONGEST: Final = 64 * 1024
"""Bytes of what is kept for one call."""
_LARGEST: Final = 32 << 20
"""Bytes of all that is kept, as JSON."""


class CallMemory:
    """The latest calls' extras."""

    def __init__(self) -> None:
        self.kept: Final[OrderedDict[tuple[str, str], tuple[Any, int]]] = OrderedDict()
        """By backend and call id: what is kept, and its bytes as JSON."""
        self._size = 0

    def keep(self, backend: str, extras: Mapping[str, Any]) -> None:
        """Keep *extras*, by call id."""
        for identity, extra in extras.items():
            try:
                size = len(identity) + len(dumps(extra))
            except ValueError:
                continue  # nested too deeply to be sent back
            if size > _LONGEST:
                continue
            _, before = self.kept.pop((backend, identity), (None, 0))
            self.kept[backend, identity] = extra, size
            self._size += size - before
        while len(self.kept) > _ENTRIES or self._size > _LARGEST:
            _, (_, size) = self.kept.popitem(last=False)
            self._size -= size

    def restore(self, backend: str, body: Body) -> Body:
        """*body* with the extras of the calls in its history; the same object where there are none."""

        def change(message: dict[str, Any]) -> dict[str, Any]:
            calls = message.get("tool_calls")
            if not isinstance(calls, list):
                return message
            restored = [self._restored(backend, call) for call in calls]
            if all(new is old for new, old in zip(restored, calls, strict=True)):
                return message
            return {**message, "tool_calls": restored}

        return map_messages(body, change)

    def _restored(self, backend: str, call: Any) -> Any:
        identity = call.get("id") if isinstance(call, dict) else None
        if not isinstance(identity, str) or "extra_content" in call or (backend, identity) not in self.kept:
            return call
        self.kept.move_to_end((backend, identity))
        return {**call, "extra_content": self.kept[backend, identity][0]}
