"""One request and what came back: the raw answer, and what can be read from it.

The project's own normalizer reads the answer, so that a server is judged as its clients would see it. What only the
raw chunks tell is read beside it: how the text was cut, which key the reasoning came under, logprobs, comments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import KINDS, ProxyError
from svir_proxy.profiles import Profile
from svir_proxy.profiles.schema import ResponseFacts
from svir_proxy.response.completion import CompletionFolder
from svir_proxy.response.error_words import read_body
from svir_proxy.response.json_text import loads
from svir_proxy.response.normalizer import StreamNormalizer
from svir_proxy.response.sse import SSEParser
from svir_proxy.response.upstream_error import ErrorReader

Outcome = Literal["answered", "refused", "failed"]
"""answered: as asked. refused: the server says that the request is at fault. failed: anything else, which says nothing
about the request: no connection, a time-out, 429, a 5xx, a body that is no answer."""

_MAX_EVENT: Final = 4 << 20
_MAX_WORDS: Final = 200
_NOT_IMPLEMENTED: Final = 501
_FAULTS: Final = frozenset({400, 404, 413, 415})
"""Statuses, of the proxy's own table of errors, that put the fault on the request."""
_REASONING_KEYS: Final = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_COMMENT: Final = re.compile(rb"(?:^|[\r\n]):[^\r\n]*")


@dataclass(frozen=True, slots=True)
class Ask:
    """A chat request to send."""

    body: Mapping[str, Any]
    leave_after_output: bool = False
    """Whether to leave as soon as there is output, as a client does that has seen enough."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, in bytes.

    Attributes:
        status: The HTTP status; None: there was no answer.
        headers: With lower-case names.
        body: As far as it was read.
        whole: Whether the body ended properly.
        trouble: Why there is no answer, or no whole one, in words.
        late: The time for an answer was over.
        left: The asker left as soon as there was output.
        first_seconds: From the request to the first byte of the body.
        seconds: From the request to the end.
    """

    status: int | None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    whole: bool = True
    trouble: str = ""
    late: bool = False
    left: bool = False
    first_seconds: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function, its arguments as the model wrote them."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Raw:
    """What the chunks say, or the one whole answer, before anything is made of it."""

    texts: tuple[str, ...] = ()
    """The content, as it was cut."""
    said: str = ""
    """The content put together, think tags and all."""
    reasoning_keys: frozenset[str] = frozenset()
    logprobs: tuple[Mapping[str, Any], ...] = ()
    """What stands for each token."""
    usage: Mapping[str, Any] | None = None
    """The last report."""
    model: str = ""
    streamed: bool = False
    comments: int = 0
    done: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What an answer amounts to."""

    outcome: Outcome
    words: str = ""
    """The server's own words where it refused or failed, with its status."""
    kind: str | None = None
    """The proxy's name for the error."""
    message: str = ""
    """The server's words alone."""
    status: int | None = None
    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    """Structured calls, and those that were written as text."""
    written: bool = False
    """Whether the calls came as text."""
    finish: str | None = None
    raw: Raw = Raw()
    answer: Answer = Answer(None)

    @property
    def refused(self) -> bool:
        """Whether the server puts the fault on the request."""
        return self.outcome == "refused"

    @property
    def prompt_tokens(self) -> int | None:
        """How long the prompt was, as the server counts; None: it does not say."""
        return _count(self.raw.usage, "prompt_tokens")

    @property
    def completion_tokens(self) -> int | None:
        """How long the answer was, as the server counts; None: it does not say."""
        return _count(self.raw.usage, "completion_tokens")

    @property
    def cut(self) -> bool:
        """Whether the limit of tokens ended the answer."""
        return self.finish == "length"


class Reader:
    """Reads the answers of one server. *secrets* are texts that no evidence may hold."""

    def __init__(self, profile: Profile, secrets: tuple[str, ...] = ()) -> None:
        self._secrets = tuple(secret for given in secrets if given for secret in (given, json.dumps(given)[1:-1]))
        self._profile = profile
        self._scrubber = ErrorReader(ClientRequest.without_chat(""), (), self._secrets)

    def scrub(self, text: str) -> str:
        """*text* without secrets, on one line."""
        return " ".join(self._clean(text).split())

    def _clean(self, text: str) -> str:
        return self._scrubber.scrub(text)

    def _profile_with(self, response: ResponseFacts, *, text_calls: bool) -> Profile:
        facts = response.model_copy(update={"text_calls": text_calls})
        return self._profile.model_copy(update={"response": facts})

    def read(self, ask: Ask, answer: Answer, response: ResponseFacts) -> Reading:
        """What *answer* to *ask* amounts to; *response*: what its bytes mean, as far as that is known."""
        request = ClientRequest.from_body(dict(ask.body), id="probe", received=1)
        errors = ErrorReader(request, self._profile.errors, self._secrets)
        if answer.status is None:
            return Reading("failed", self.scrub(answer.trouble), answer=answer)
        if not 200 <= answer.status < 300:
            return self._error(errors.from_response(answer.status, answer.headers, answer.body), answer)
        raw = read_raw(answer.body)
        raw = replace(raw, said=self._clean("".join(raw.texts)), model=self._clean(raw.model))
        folded = _fold(request, self._profile_with(response, text_calls=False), answer, errors)
        calls, written = _calls(folded), False
        if not calls and request.tool_names and folded.error is None:
            calls = _calls(_fold(request, self._profile_with(response, text_calls=True), answer, errors))
            written = bool(calls)
        if folded.error is not None and not (answer.left and folded.error.kind == "stream_truncated"):
            return self._error(folded.error, answer, raw)
        message = folded.completion()["choices"][0]["message"]
        reasoning = message.get("reasoning_content", "")
        return Reading(
            "answered",
            text=self._clean(message["content"] or ""),
            reasoning=self._clean(reasoning) if reasoning.strip() else "",  # an empty block is no thought
            calls=tuple(Call(self._clean(call.name), self._clean(call.arguments)) for call in calls),
            written=written,
            finish=folded.finish_reason,
            status=answer.status,
            raw=raw,
            answer=answer,
        )

    def _error(self, error: ProxyError, answer: Answer, raw: Raw | None = None) -> Reading:
        refused = KINDS[error.kind].status in _FAULTS or answer.status == _NOT_IMPLEMENTED
        said = self.scrub(read_body(answer.body).message if answer.status != 200 else error.message)
        words = f"{answer.status} {said or error.message}"
        if answer.trouble:
            words = f"{words} ({answer.trouble})"
        return Reading(
            "refused" if refused and not answer.trouble else "failed",
            words=_shortened(self.scrub(words)),
            kind=error.kind,
            message=said,
            status=answer.status,
            raw=raw or Raw(),
            answer=answer,
        )


def _shortened(words: str) -> str:
    """*words* cut to what a line of evidence can hold: some servers list all that the request is not."""
    return words if len(words) <= _MAX_WORDS else f"{words[:_MAX_WORDS]}…"


def read_raw(body: bytes) -> Raw:
    """What *body*, a stream or one JSON object, says as it stands."""
    streamed = body.lstrip()[:1] != b"{"
    texts: list[str] = []
    keys: set[str] = set()
    logprobs: list[Mapping[str, Any]] = []
    usage, model = None, ""
    for chunk in _objects(body, streamed=streamed):
        usage = chunk["usage"] if isinstance(chunk.get("usage"), dict) else usage
        model = chunk["model"] if isinstance(chunk.get("model"), str) else model
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        said = choice.get("delta") if isinstance(choice.get("delta"), dict) else choice.get("message")
        if isinstance(said, dict):
            keys |= {key for key in _REASONING_KEYS if said.get(key)}
            if isinstance(said.get("content"), str) and said["content"]:
                texts.append(said["content"])
        probabilities = choice.get("logprobs")
        if isinstance(probabilities, dict) and isinstance(probabilities.get("content"), list):
            logprobs += [entry for entry in probabilities["content"] if isinstance(entry, dict)]
    return Raw(
        texts=tuple(texts),
        reasoning_keys=frozenset(keys),
        logprobs=tuple(logprobs),
        usage=usage,
        model=model,
        streamed=streamed,
        comments=len(_COMMENT.findall(body)) if streamed else 0,
        done=streamed and b"[DONE]" in body[-200:],
    )


def _objects(body: bytes, *, streamed: bool) -> Iterator[dict[str, Any]]:
    payloads = [data for _, data in SSEParser(_MAX_EVENT).feed(body + b"\n\n")] if streamed else [body]
    for payload in payloads:
        try:
            value = loads(payload)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def _fold(request: ClientRequest, profile: Profile, answer: Answer, errors: ErrorReader) -> CompletionFolder:
    normalizer = StreamNormalizer(request, profile, errors=lambda: errors)
    folder = CompletionFolder(request)
    for event in (*normalizer.receive_data(answer.body), *normalizer.receive_eof(answer.whole)):
        folder.feed(event)
    return folder


def _calls(folded: CompletionFolder) -> tuple[Call, ...]:
    made = folded.completion()["choices"][0]["message"].get("tool_calls", [])
    return tuple(Call(call["function"]["name"], call["function"]["arguments"]) for call in made)


def _count(usage: Mapping[str, Any] | None, key: str) -> int | None:
    value = usage.get(key) if usage is not None else None
    return value if type(value) is int and value >= 0 else None
