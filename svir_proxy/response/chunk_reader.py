"""One chunk's JSON, or one whole answer's, to events.

Every server's ways of saying the same thing meet here: reasoning under ``reasoning_content`` (LM Studio, llama.cpp),
``reasoning`` (vLLM, mlx-lm, Ollama), both with one text (mlx-vlm), ``thinking``, ``reasoning_details`` (OpenRouter,
Snowflake), an object (Envoy), typed parts of ``content`` (Mistral, Databricks); nulls and empty strings everywhere;
``message`` in place of ``delta`` or beside it; calls without index, type or id; ``function_call``; usage in the chunk,
in the choice or under ``x_groq``; Azure's verdicts, also in choices without ``delta``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.response.error_words import has_error
from svir_proxy.response.events import (
    ContentDelta,
    FilterVerdict,
    Finished,
    Identified,
    ReasoningDelta,
    RefusalDelta,
    StageEvent,
    ToolCallPiece,
    UsageReported,
)
from svir_proxy.response.json_text import LARGEST_INTEGER, dumps, has_surrogates, safe_integer, whole_characters
from svir_proxy.response.logprobs import read_logprobs
from svir_proxy.response.stages.stage import Sink
from svir_proxy.response.upstream_error import ErrorReader
from svir_proxy.response.usage import read_usage

_REASONING_ORDER: Final = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_REASONING_KEYS: Final = frozenset(_REASONING_ORDER)
_REASONING_PARTS: Final = frozenset({"thinking", "reasoning", "reasoning.text", "reasoning.summary"})
_TEXT_KEYS: Final = ("text", "thinking", "summary", "reasoning", "content", "output_text")
_SERVICE_TIERS: Final = frozenset({"auto", "default", "flex", "scale", "priority", "fast"})
_FIRST_HALVES: Final = range(0xD800, 0xDC00)
"""Code points that are the first half of a surrogate pair."""
_LONGEST_NAME: Final = 512
"""Characters of an answer's id and of a model's name, which every chunk repeats."""
_FAILURES: Final = frozenset({"error", "network_error", "abort", "aborted", "malformed_function_call"})


_Text = ContentDelta | ReasoningDelta | RefusalDelta
ALONE: Final[dict[str, type[_Text]]] = {
    "content": ContentDelta,
    "reasoning_content": ReasoningDelta,
    "reasoning": ReasoningDelta,
}
"""Keys that, alone in a delta and with a string, say all there is to read: nearly every delta is such a one."""


class ChunkReader:
    """Reads the chunks of one answer, in order: events go to *sink*. *errors* makes what reads a failure among them.

    *identified* takes the identity, with which no stage on the way is concerned; None: *sink* does.
    """

    __slots__ = ("_errors", "_halves", "_identified", "_request", "_sink", "answered", "pieces", "texts")

    def __init__(
        self,
        request: ClientRequest,
        errors: Callable[[], ErrorReader],
        sink: Sink,
        identified: Sink | None = None,
    ) -> None:
        self._request = request
        self._errors = errors
        self._sink = sink
        self._identified = identified or sink
        self.texts = sink
        """Takes content and reasoning; whoever knows that the stages let them pass may set a nearer one."""
        # First halves of surrogate pairs, by the kind of text or by the index of the call whose arguments they end.
        self._halves: dict[type[_Text] | int | None, str] | None = None
        self.answered = False
        """Whether any choice was seen."""
        self.pieces = 0
        """How many pieces of text and of calls came, whether they were given on or are held back."""

    def read(self, chunk: Any, event_name: bytes = b"") -> None:
        """Read one parsed chunk; raises ProxyError where it is a failure, or nothing that can be read."""
        if type(chunk) is not dict:
            if chunk is None:
                return
            if has_error(chunk):
                raise self._errors().from_stream(chunk)
            raise unreadable(f"a chunk is {type(chunk).__name__}, not an object")
        choices = chunk.get("choices")
        if event_name == b"error" or (("error" in chunk or not choices) and has_error(chunk)):
            raise self._errors().from_stream(chunk)
        if choices:
            if type(choices) is not list:
                raise unreadable("choices is no list")
            for choice in choices:
                if type(choice) is not dict:
                    raise unreadable("a choice is no object")
                if choice.get("index") in (0, None):
                    self._choice(chunk, choice)
        elif choices is None and "choices" in chunk:
            raise unreadable("choices is null")
        if "usage" in chunk or "x_groq" in chunk:
            groq = chunk.get("x_groq")
            usage = read_usage(chunk.get("usage")) or read_usage(groq.get("usage") if type(groq) is dict else None)
            if usage:
                self._sink(UsageReported(usage))
        if "prompt_filter_results" in chunk or "prompt_annotations" in chunk:
            verdicts = chunk.get("prompt_filter_results") or chunk.get("prompt_annotations")
            if _is_filtered(verdicts):
                self._sink(FilterVerdict())

    def preview(self, chunk: Any) -> list[StageEvent]:
        """What *chunk* would say if it came next, halves of characters aside; raises ProxyError as `read` does."""
        events: list[StageEvent] = []
        reader = ChunkReader(self._request, self._errors, events.append)
        reader.answered = True
        reader.read(chunk)
        return events

    def finish(self) -> None:
        """The chunks are over: halves of characters that never came whole are let go."""
        halves, self._halves = self._halves, None
        for kind in halves or ():
            if isinstance(kind, type):
                self._sink(kind("\ufffd"))
            else:
                self._sink(ToolCallPiece(kind, "", "", "\ufffd"))

    def _choice(self, chunk: dict[str, Any], choice: dict[str, Any]) -> None:
        if not self.answered:
            self.answered = True
            self._identified(identity(chunk, self._request))
        if choice.get("error"):
            raise self._errors().from_stream(choice)
        delta = choice.get("delta")
        whole = type(delta) is not dict
        if whole:
            delta = choice.get("message")
            if delta is None and type(choice.get("text")) is str:
                delta = {"content": choice["text"]}
        if choice.get("logprobs"):
            logprobs = read_logprobs(choice["logprobs"])
            if logprobs:
                self._sink(logprobs)
        reason = choice.get("finish_reason") or ""
        failed = False
        if reason:
            reason = reason if type(reason) is str else ""
            failed = reason.lower() in _FAILURES
            if failed and whole:
                # A failure that was never streamed: what the server wrote is its account of it (MLX Studio).
                said = "".join(_texts(delta)) if type(delta) is dict else ""
                raise self._errors().from_finish(reason, said)
        if type(delta) is dict:
            self._delta(delta, whole)
        elif delta is not None:
            raise unreadable("a delta is no object")
        if "content_filter_results" in choice and _is_filtered(choice["content_filter_results"]):
            self._sink(FilterVerdict())
        if failed:
            raise self._errors().from_finish(reason)
        if reason:
            self._sink(Finished(reason))
        usage = choice.get("usage")
        if usage:
            report = read_usage(usage)
            if report:
                self._sink(UsageReported(report))

    def _delta(self, delta: dict[str, Any], whole: bool) -> None:
        if len(delta) == 1:
            (key,) = delta
            text = delta[key]
            if key in ALONE and type(text) is str:
                self.text(ALONE[key], text)
                return
        if not _REASONING_KEYS.isdisjoint(delta):
            self._reasoning(delta)
        content = delta.get("content")
        if content:
            if type(content) is str:
                self.text(ContentDelta, content)
            else:
                self._parts(content)
        refusal = delta.get("refusal")
        if refusal and type(refusal) is str:
            self.text(RefusalDelta, refusal)
        calls = delta.get("tool_calls")
        if calls:
            if type(calls) is not list:
                raise unreadable("tool_calls is no list")
            for position, call in enumerate(calls):
                if type(call) is not dict:
                    raise unreadable("a tool call is no object")
                self._call(call, call.get("function"), position if whole else None)
        legacy = delta.get("function_call")
        if legacy and not calls and type(legacy) is dict and (legacy.get("name") or legacy.get("arguments")):
            self._call({"index": 0}, legacy, None)

    def _reasoning(self, delta: dict[str, Any]) -> None:
        """The first key that says anything: several say the same."""
        for key in _REASONING_ORDER:
            value = delta.get(key)
            if value:
                text = value if type(value) is str else "".join(_texts(value))
                if text:
                    self.text(ReasoningDelta, text)
                    return

    def _parts(self, content: Any) -> None:
        """Content that is no plain string: typed parts, or one of them. Parts of a kind are one text."""
        parts = content if type(content) is list else [content]
        for kind, texts in groupby(filter(None, map(_typed, parts)), itemgetter(0)):
            self.text(kind, "".join(text for _, text in texts))

    def text(self, kind: type[_Text], text: str) -> None:
        """A piece of text of one kind, as it was read."""
        if self._halves is not None or not text.isascii():
            text = self._joined(kind, text)
        if text:
            self.pieces += 1
            if kind is RefusalDelta:
                self._sink(kind(text))
            else:
                self.texts(kind(text))

    def _joined(self, kind: type[_Text] | int | None, text: str) -> str:
        """*text* without lone surrogates: a pair may be split over two chunks."""
        halves = self._halves
        if halves is None:
            if not has_surrogates(text):
                return text
            halves = {}
        text = halves.pop(kind, "") + text
        half = text[-1:]
        if half and ord(half) in _FIRST_HALVES:
            halves[kind] = half
            text = text[:-1]
        self._halves = halves or None
        return whole_characters(text)

    def _call(self, call: dict[str, Any], function: Any, position: int | None) -> None:
        if type(function) is not dict:
            function = call  # flat: {"name", "arguments"} in the call itself
        index = call.get("index")
        identity = call.get("id")
        name = function.get("name")
        arguments = function.get("arguments")
        is_value = arguments is not None and type(arguments) is not str
        if is_value:
            try:
                arguments = dumps(arguments).decode()
            except ValueError as exc:
                raise unreadable(str(exc)) from None
        if type(index) is not int:
            index = position
        if arguments and (self._halves is not None or not arguments.isascii()):
            arguments = self._joined(index, arguments)
        if type(identity) is not str:
            identity = "" if identity is None else str(identity)
        self.pieces += 1
        self._sink(
            ToolCallPiece(
                index,
                identity if identity.isascii() else whole_characters(identity),
                name if type(name) is str else "",
                arguments or "",
                whole=is_value or position is not None,
                extra=call.get("extra_content"),
            )
        )


def identity(chunk: dict[str, Any], request: ClientRequest) -> Identified:
    """Who answers *request*, by the first chunk with a choice, or by a whole answer."""
    given, model, fingerprint = [
        name if type(name) is str and 0 < len(name) <= _LONGEST_NAME else None
        for name in (chunk.get("id"), chunk.get("model"), chunk.get("system_fingerprint"))
    ]
    created, tier = chunk.get("created"), chunk.get("service_tier")
    if type(created) is not int or not 0 < created <= LARGEST_INTEGER:
        created = _odd_time(created) or request.received
    return Identified(
        given or _made_up_id(request),
        created,
        model or request.model or "unknown",
        fingerprint,
        tier if type(tier) is str and tier in _SERVICE_TIERS else None,
    )


def _odd_time(created: Any) -> int | None:
    """The time in *created*, which is no whole number that can be one; None where there is none."""
    if type(created) is str and created.isdecimal():
        return safe_integer(int(created[:16]))
    return int(created) if type(created) is float and 0 < created <= LARGEST_INTEGER else None


def made_up_identity(request: ClientRequest) -> Identified:
    """An answer's identity where the server gave none."""
    return Identified(_made_up_id(request), request.received, request.model or "unknown")


def _made_up_id(request: ClientRequest) -> str:
    return f"chatcmpl-{request.id}"


def unreadable(detail: str) -> ProxyError:
    """The error for an answer whose shape cannot be read."""
    return ProxyError(
        "upstream_bad_response",
        f"The server's answer is not a chat completion: {detail}. Check the backend's base_url and profile.",
    )


def _typed(part: Any) -> tuple[type[_Text], str] | None:
    """The kind and the text of one part of content; None where there is none."""
    if part is None:
        return None
    if isinstance(part, str):
        return ContentDelta, part
    if not isinstance(part, dict):
        raise unreadable(f"content is {type(part).__name__}")
    kind = part.get("type")
    if kind == "refusal":
        return RefusalDelta, "".join(_texts(part.get("refusal")))
    is_reasoning = isinstance(kind, str) and kind in _REASONING_PARTS
    return ReasoningDelta if is_reasoning else ContentDelta, "".join(_texts(part))


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    """The texts in a typed part, in order, wherever servers nest them."""
    if isinstance(value, str):
        yield value
    elif depth > 8:
        return
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, depth + 1)
    elif isinstance(value, dict):
        for key in _TEXT_KEYS:
            inner = value.get(key)
            if inner:
                yield from _texts(inner, depth + 1)
                return


def _is_filtered(verdicts: Any, depth: int = 0) -> bool:
    """Whether a filter's results hold ``filtered: true`` anywhere; ``detected`` alone blocks nothing."""
    if depth > 8:
        return False
    if isinstance(verdicts, dict):
        if verdicts.get("filtered") is True:
            return True
        return any(_is_filtered(item, depth + 1) for item in verdicts.values())
    if isinstance(verdicts, list):
        return any(_is_filtered(item, depth + 1) for item in verdicts)
    return False
