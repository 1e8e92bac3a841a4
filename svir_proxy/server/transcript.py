"""What was asked and answered, word for word: only where ``logging.show_prompts`` is on, and marked as such."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from svir_proxy.client_request import ClientRequest
from svir_proxy.response.completion import CompletionFolder
from svir_proxy.response.events import Event, ExtrasReported, LogprobsReported
from svir_proxy.response.json_text import dumps
from svir_proxy.response.lifecycle import OUTPUT
from svir_proxy.server.answer import ClientAnswer, InFront

_LOGGER: Final = logging.getLogger("svir_proxy.prompts")
_LONGEST: Final = 20_000
"""Characters of a request or of an answer that are logged."""
_GROWING: Final = (*OUTPUT, LogprobsReported, ExtrasReported)
"""Events of which there may be any number."""


class Transcript(InFront[ClientAnswer]):
    """An answer that is written down on its way into another one."""

    def __init__(self, request: ClientRequest, answer: ClientAnswer) -> None:
        super().__init__(answer)
        self._request = request
        self._folder = CompletionFolder(request)
        self._room = _LONGEST  # characters; a stream may go on for ever

    def take(self, events: Sequence[Event]) -> None:
        """Write *events* down and hand them on."""
        for event in events:
            if self._room > 0 or not isinstance(event, _GROWING):
                self._folder.feed(event)
                self._room -= len(getattr(event, "text", "")) + 1
        self._answer.take(events)

    def restart(self) -> None:
        """Write down another backend's answer instead."""
        self._folder = CompletionFolder(self._request)
        self._room = _LONGEST
        self._answer.restart()

    def write(self, request_id: str) -> None:
        """Log both sides."""
        told = {
            "request_id": request_id,
            "request": _told(self._request.body),
            "answer": _told(self._folder.completion()),
        }
        _LOGGER.info("prompt and answer (logging.show_prompts)", extra={"told": told})


def _told(value: Mapping[str, Any]) -> str:
    try:
        return dumps(dict(value)).decode()[:_LONGEST]
    except ValueError as exc:
        return f"({exc})"
