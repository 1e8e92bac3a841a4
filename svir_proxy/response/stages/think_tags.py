"""Reasoning that comes inside the content, between markers, made reasoning.

Servers without a reasoning parser, or with it off, send ``<think>...</think>`` (llama.cpp with
``--reasoning-format none``, vLLM without ``--reasoning-parser``), MiniMax's ``<mm:think>``, gpt-oss's Harmony channels.
Markers can be cut anywhere. Text is kept to the byte: what stood between the markers is reasoning, the rest content. A
closing marker without an opening one is text, unless the template is known to open the block itself (*preopened*); a
block never closed is reasoning. Once reasoning came under a key, the server separates it, and markers are text.
"""

from __future__ import annotations

import re
from typing import Final

from svir_proxy.response.events import (
    ContentDelta,
    Ended,
    Failed,
    ReasoningDelta,
    RefusalDelta,
    StageEvent,
    ToolCallPiece,
)
from svir_proxy.response.stages.stage import Sink

_CLOSERS: Final = {
    "<think>": "</think>",
    "<mm:think>": "</mm:think>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "<|channel|>analysis<|message|>": "<|end|>",
    "<|start|>assistant<|channel|>analysis<|message|>": "<|end|>",
}
_HARMONY_FINAL: Final = ("<|start|>assistant<|channel|>final<|message|>", "<|channel|>final<|message|>")
"""Harmony's markers around the answer: markup, nothing of the text."""
_OPENERS: Final = (*_CLOSERS, *_HARMONY_FINAL)
_OPEN: Final = re.compile("|".join(map(re.escape, sorted(_OPENERS, key=len, reverse=True))))
_FIRST: Final = re.compile(r"[<\[]")
"""What all markers begin with."""
_LONGEST: Final = max(map(len, _OPENERS))


def _beginnings(*markers: str) -> frozenset[str]:
    return frozenset(marker[:size] for marker in markers for size in range(1, len(marker)))


_BEGUN: Final = {"": _beginnings(*_OPENERS), **{closer: _beginnings(closer) for closer in _CLOSERS.values()}}
"""What may become the marker that is waited for: an opening one, or the one that closes the block."""
_TEXT_ENDS: Final = (ReasoningDelta, RefusalDelta, ToolCallPiece, Ended, Failed)
"""What shows that the text before it was no unfinished marker."""


class ThinkTags:
    """Splits content at think markers; holds back no more than could still be one.

    *texts* takes content and reasoning, where the stages in between are not concerned with them; None: *sink* does.
    """

    __slots__ = ("_closer", "_held", "_sink", "is_off", "texts")

    def __init__(self, sink: Sink, *, preopened: bool = False, texts: Sink | None = None) -> None:
        self._sink = sink
        self.texts = texts or sink
        """Where text goes."""
        self._held = ""  # the end of the text so far that may begin a marker
        self._closer = "</think>" if preopened else ""  # what ends the block we are in; "" outside
        self.is_off = False
        """Whether markers are text, for good: content and reasoning pass as they are, and nothing is held."""

    def feed(self, event: StageEvent) -> None:
        """Take the next event."""
        if type(event) is ContentDelta:
            text = event.text
            if self.is_off:
                self.texts(event)
            elif self._held or "<" in text or "[" in text:
                self._split(self._held + text)
            elif self._closer:
                self.texts(ReasoningDelta(text))
            else:
                self.texts(event)
            return
        if self._held and type(event) in _TEXT_ENDS:
            held, self._held = self._held, ""
            self._emit(held)
        if type(event) is ReasoningDelta:
            self.is_off = True
            self.texts(event)
        else:
            self._sink(event)

    def _emit(self, text: str) -> None:
        if text:
            self.texts(ReasoningDelta(text) if self._closer else ContentDelta(text))

    def _split(self, text: str) -> None:
        self._held = ""
        at = 0
        while True:
            if self._closer:
                end = text.find(self._closer, at)
                if end < 0:
                    keep = _possible(text, at, _BEGUN[self._closer])
                    break
                self._emit(text[at:end])
                at = end + len(self._closer)
                self._closer = ""
            else:
                found = _OPEN.search(text, at)
                if found is None:
                    keep = _possible(text, at, _BEGUN[""])
                    break
                self._emit(text[at : found.start()])
                at = found.end()
                self._closer = _CLOSERS.get(found[0], "")
        self._emit(text[at:keep])
        self._held = text[keep:]


def _possible(text: str, at: int, begun: frozenset[str]) -> int:
    """Where the end of *text* is one of *begun*; its length where it is none."""
    for first in _FIRST.finditer(text, max(at, len(text) - _LONGEST + 1)):
        if text[first.start() :] in begun:
            return first.start()
    return len(text)
