"""The shape of a profile: facts in the vocabulary of a wire log.

A thing is a field here only if it must be known before a byte arrives, or if the same bytes mean different things on
different servers. What the wire itself shows is handled in code for every server. What the proxy does about a fact is
decided in `svir_proxy.request` and `svir_proxy.response`, never here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from svir_proxy.errors import KINDS

_TELLING_HEADER: Final = re.compile(r"x-(?!svir-)[a-z0-9-]+")
_OWN_HEADERS: Final = frozenset({"x-request-id", "x-should-retry", "x-accel-buffering"})

Fact = Literal["kept", "ignored", "rejected", "unknown"]
"""What a server does with something a request can say.

kept: accepted and honoured. ignored: accepted, without effect. rejected: answered with a 4xx (or an error in a stream).
unknown: not observed, or it depends on the model or on the server's flags.
"""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as exc:
        raise ValueError(f"is no regular expression: {exc}") from exc
    return value


def _header(value: str) -> str:
    if not _TELLING_HEADER.fullmatch(value) or value in _OWN_HEADERS:
        raise ValueError("must be a header in lower case that begins with x-, and none that the proxy sets itself")
    return value


def _kind(value: str) -> str:
    if value not in KINDS:
        raise ValueError(f"names no error; known are {', '.join(sorted(KINDS))}")
    return value


Pattern = Annotated[str, AfterValidator(_pattern)]


class Observation(_Part):
    """Where the facts of a profile come from."""

    source: Literal["recorded", "run", "protocol", "docs", "report", "code", "probe"]
    version: str | None = None
    ref: str | None = None


class Endpoint(_Part):
    """Where and how the server is asked. Paths are below the base URL without its ``/v1``."""

    chat_path: str = "/v1/chat/completions"
    models_path: str = "/v1/models"
    auth: Literal["bearer", "api-key", "none"] = "bearer"
    """How the upstream's key is sent: ``Authorization: Bearer``, the header ``api-key``, or not at all."""
    query: dict[str, str] = {}
    """Query parameters of every request (Azure's ``api-version``)."""
    cloud: bool = False
    """Whether this is a provider's service on the public internet: what it fetches for a URL in a request is not of the
    operator's own network."""


class ToolChoiceFacts(_Part):
    """What becomes of each form of ``tool_choice`` when tools are offered."""

    auto: Fact = "kept"
    none: Fact = "kept"
    required: Fact = "kept"
    named: Fact = "kept"
    allowed_tools: Fact = "unknown"
    """``{"type": "allowed_tools", ...}``: a choice among some of the tools."""


class ResponseFormatFacts(_Part):
    """What becomes of ``response_format``."""

    json_object: Fact = "kept"
    json_schema: Fact = "kept"
    json_object_needs_word: bool = False
    """``json_object`` is refused unless the word JSON stands in the messages."""
    schema_binds_reasoning: bool = False
    """The schema holds the reasoning too, so that the JSON arrives as reasoning."""


class RequestFacts(_Part):
    """What the server does with a request."""

    stream: Literal["always", "as_client", "never"] = "as_client"
    """Whether the server is asked to stream also for a client that does not (``always``), or not even for one that does
    (``never``: it cannot). A local server stops generating when a stream's client leaves; a plain request often runs to
    its end."""
    model: Literal["any", "listed", "loads"] = "listed"
    """A model name the server does not list is answered all the same (``any``), refused (``listed``), or makes the
    server load what it names (``loads``)."""
    tools: Fact = "kept"
    tool_choice: ToolChoiceFacts = ToolChoiceFacts()
    legacy_functions: Fact = "kept"
    """The deprecated ``functions`` and ``function_call``."""
    empty_tools: Fact = "kept"
    """``tools: []``, and ``tool_choice`` or ``parallel_tool_calls`` without tools."""
    optional_fields: dict[str, Fact] = {}
    """Top-level fields an answer can do without, by name."""
    response_format: ResponseFormatFacts = ResponseFormatFacts()
    images: Fact = "kept"
    remote_images: Literal[Fact, "withheld"] = "unknown"
    """Images given as an http(s) URL, which the server has to fetch. ``withheld``: whatever it does with them, it may
    stand in a network of the operator's, and gets none; `svir_proxy.settings.backend` says so, no profile does."""
    audio: Fact = "kept"
    files: Fact = "kept"
    content_parts: Fact = "kept"
    """Text as a list of ``text`` parts in place of a string."""
    tool_content_parts: Fact = "kept"
    """The same in a tool message."""
    null_content: Fact = "kept"
    """``content: null`` in an assistant message with calls."""
    missing_content: Fact = "kept"
    """No ``content`` in an assistant message with calls."""
    developer_role: Fact = "kept"
    late_system: Fact = "kept"
    """A ``system`` message that is not the first."""
    consecutive_roles: Fact = "kept"
    """Two user or two assistant messages in a row."""
    tool_strict: Fact = "kept"
    """``strict`` in a tool's definition."""
    empty_parameters: Fact = "kept"
    """A tool without ``parameters``, or with ``{}``."""
    call_ids: Literal["any", "alphanumeric_9"] = "any"
    """The form of call ids in the history that the server takes."""
    tool_message_name: Literal["any", "required", "rejected"] = "any"
    """``name`` in a tool message: the function that was called."""
    reasoning_efforts: dict[str, str | None] = {}
    """Values of ``reasoning_effort`` that the server does not know: what to send instead; null: leave the field out."""
    refusal_parts: Fact = "kept"
    """``refusal`` parts in an assistant message's content."""
    empty_arguments: Fact = "kept"
    """An earlier call whose arguments are the empty string."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens", "both"] = "max_tokens"
    """The name of the output limit this server reads."""
    stop: Fact = "kept"
    """Stop sequences. ``ignored`` also where they do not end the answer, whatever else they do to it."""
    reasoning_history: Literal["reasoning_content", "reasoning", "none"] = "none"
    """The key under which an assistant message repeats its reasoning."""
    stream_with_tools: Fact = "kept"
    """A stream of a request with tools."""
    stream_logprobs: Fact = "kept"
    """``logprobs`` in a stream."""
    stream_logprobs_with_tools: Fact = "kept"
    """``logprobs`` in a stream of a request with tools."""
    always_send: dict[str, Any] = {}
    """Top-level fields sent with every request that does not set them itself."""
    unknown_fields: Fact = "kept"
    """Fields outside the protocol (``top_k``, ``chat_template_kwargs``, ...)."""

    @cached_property
    def plans(self) -> dict[int, tuple[Callable[..., Any], ...]]:
        """What follows from these facts, kept beside them by who decides it: `svir_proxy.request.pipeline`."""
        return {}

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy, from whose facts something else may follow."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("plans", None)
        return copy


class ResponseFacts(_Part):
    """What the same bytes mean on this server."""

    reasoning: Literal["field", "think_tags_preopened"] = "field"
    """``think_tags_preopened``: the template opens the think tag: what comes before ``</think>`` is reasoning."""
    content: Literal["incremental", "cumulative"] = "incremental"
    """``cumulative``: ``delta.content`` repeats the whole text so far."""
    text_calls: bool = True
    """Whether a tool call written as text is made a call, when the request offers tools."""
    headers: list[Annotated[str, AfterValidator(_header)]] = []
    """Headers of its answers that tell a client something, in lower case: passed on."""


class ErrorCondition(_Part):
    """What an error looks like; every field that is given must match."""

    status: int | None = None
    code: str | None = None
    type: str | None = None
    message: Pattern | None = None
    """A regular expression searched for in the message, without regard to case."""


class ErrorRule(_Part):
    """An error this server words in its own way."""

    when: ErrorCondition
    then: Annotated[str, AfterValidator(_kind)]


class ModelFacts(_Part):
    """What the model list holds beside chat models."""

    hidden: list[Pattern] = []
    """Regular expressions on the id, without regard to case: listed, but no chat model."""


class Signature(_Part):
    """An answer to a GET by which the server is recognized; every field that is given must match."""

    path: str
    """Below the base URL without its ``/v1``."""
    body: Pattern | None = None
    """A regular expression searched for in the body."""
    headers: dict[str, Pattern] = {}


class Discovery(_Part):
    """How a server of this kind is found on this machine."""

    ports: list[int] = []
    """Usual loopback ports."""
    signatures: list[Signature] = []
    """Any one of them is enough."""


class Profile(_Part):
    """What one kind of server was observed to do."""

    name: str
    extends: str | None = None
    server: str
    """The server's name as people write it."""
    provider: str | None = None
    """What OpenTelemetry's conventions call it (``gen_ai.provider.name``); null: what the profile is called."""
    notes: str = ""
    """What a person should know before using this server."""
    observed: list[Observation] = Field(min_length=1)
    endpoint: Endpoint = Endpoint()
    request: RequestFacts = RequestFacts()
    response: ResponseFacts = ResponseFacts()
    errors: list[ErrorRule] = []
    models: ModelFacts = ModelFacts()
    discovery: Discovery = Discovery()
    evidence: dict[str, str] = {}
    """The evidence for single facts: dotted path (``request.tool_choice.named``) to what was seen, where."""

    def fact(self, path: str) -> Any:
        """The value at a dotted *path*; KeyError where there is none."""
        value: Any = self
        for name in path.split("."):
            if isinstance(value, dict):
                value = value[name]
            elif isinstance(value, BaseModel) and name in type(value).model_fields:
                value = getattr(value, name)
            else:
                raise KeyError(path)
        return value
