"""Each fact of a profile in words: what the server does, and what the proxy does about it.

The words follow the decision tables of `svir_proxy.request.rewrites`. A fact that the schema has and this table has
not fails a test, as does one that has lost a value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, get_args

from svir_proxy.profiles.schema import Fact


class Told(NamedTuple):
    """One value of a fact: the server's part goes on from the label, the proxy's part from "The proxy"."""

    server: str
    proxy: str


Value = str | bool
Words = Callable[[Any], Told]
"""Tells of a value that is no word of a fixed list."""


@dataclass(frozen=True, slots=True)
class FactInWords:
    """A fact.

    Attributes:
        area: The part of the page that it stands in; one of `AREAS`.
        label: What it is about, in Markdown.
        told: The words for each value, or what makes them of any value.
    """

    area: str
    label: str
    told: Mapping[Value, Told] | Words

    def of(self, value: Any) -> Told:
        """The words for *value*; KeyError where there are none."""
        return self.told(value) if callable(self.told) else self.told[value]


AREAS: Final = (
    "Asking it",
    "Tools",
    "Formats",
    "Messages",
    "Optional fields",
    "Its answers",
    "Its models",
)

_SENT: Final = "sends it"
_NO_URL: Final = (
    "refuses it (400 `image_url_not_allowed`), or fetches it itself with `remote_images: inline` on the backend"
)
_CALL: Final = "demands a call in words, checks the answer and asks once more"
_JSON: Final = "asks for the JSON in words, checks the answer and asks once more"


def _fact(
    area: str,
    label: str,
    lost: str,
    *,
    ignored: Told | None = None,
    rejected: Told | None = None,
    unknown: str = _SENT,
) -> FactInWords:
    """A fact of the four words; *lost* is what the proxy does where it is ignored or rejected."""
    return FactInWords(
        area,
        label,
        {
            "kept": Told("is kept", _SENT),
            "ignored": ignored or Told("is taken, and has no effect", lost),
            "rejected": rejected or Told("is refused", lost),
            "unknown": Told("was not observed, or depends on the model or on a flag", unknown),
        },
    )


def _choice(name: str, label: str, lost: str, **told: Any) -> tuple[str, FactInWords]:
    return f"request.tool_choice.{name}", _fact("Tools", label, lost, **told)


def _path(what: str) -> Words:
    return lambda value: Told(f"is `{value}`, below the base URL without its `/v1`", f"asks for {what} there")


def _efforts(value: Mapping[str, str | None]) -> Told:
    left_out = [f"`{effort}`" for effort, instead in value.items() if instead is None]
    replaced = [f"`{instead}` for `{effort}`" for effort, instead in value.items() if instead is not None]
    does = [f"says {', '.join(replaced)}"] if replaced else []
    does += [f"leaves the field out for {', '.join(left_out)}"] if left_out else []
    return Told("is not always known", " and ".join(does) or "sends each as it is")


def _listed(value: Mapping[str, Fact]) -> Told:
    """All optional fields of one profile, by what becomes of them."""
    found: dict[str, list[str]] = {word: [] for word in get_args(Fact)}
    for name, fact in value.items():
        found[fact].append(f"`{name}`")
    told = [
        f"{'is' if len(names) == 1 else 'are'} {'not known' if word == 'unknown' else word}: {', '.join(names)}"
        for word, names in found.items()
        if names
    ]
    return Told("; ".join(told) or "are not listed", "leaves out what is rejected, and tells what is ignored")


OPTIONAL_FIELD: Final = _fact(
    "Optional fields",
    "`{name}`",
    "",
    ignored=Told("is taken, and has no effect", "sends it and says `ignored={name}`"),
    rejected=Told("is refused", "leaves it out and says `drop={name}`"),
)
"""One field of ``request.optional_fields``; ``{name}`` stands for it."""

SENT: Final = _SENT
"""What the proxy does where there is nothing to do."""

FACTS: Final[Mapping[str, FactInWords]] = {
    # ------------------------------------------------------------- asking it
    "endpoint.chat_path": FactInWords("Asking it", "The path of chat", _path("answers")),
    "endpoint.models_path": FactInWords("Asking it", "The path of the model list", _path("the list")),
    "endpoint.auth": FactInWords(
        "Asking it",
        "The key",
        {
            "bearer": Told("goes as `Authorization: Bearer`", "sends the backend's `api_key` so"),
            "api-key": Told("goes as the header `api-key`", "sends the backend's `api_key` so"),
            "none": Told("is not asked for", "sends none"),
        },
    ),
    "endpoint.cloud": FactInWords(
        "Asking it",
        "The server",
        {
            True: Told("is a provider's service", "leaves it to fetch images by URL, where it does"),
            False: Told(
                "may stand in a network of yours",
                "gives it no URL to fetch, unless the backend has `remote_images: pass`",
            ),
        },
    ),
    "endpoint.query": FactInWords(
        "Asking it",
        "Each URL",
        lambda value: Told(
            f"needs {', '.join(f'`{key}={text}`' for key, text in value.items()) or 'no query'}", "adds it"
        ),
    ),
    "request.stream": FactInWords(
        "Asking it",
        "A stream",
        {
            "always": Told(
                "is better here than a plain request",
                "asks for one in any case and gathers the answer for a client that wants it whole",
            ),
            "as_client": Told("is as good as a plain request", "asks for one where the client does"),
            "never": Told(
                "cannot be had", "asks for the whole answer and makes the stream of it for a client that wants one"
            ),
        },
    ),
    "request.model": FactInWords(
        "Asking it",
        "A model's name that it does not list",
        {
            "any": Told("is answered all the same", "passes any name on where it is the only backend"),
            "listed": Told("is refused", "passes it on where it is the only backend, and the refusal back"),
            "loads": Told(
                "makes it load what the name says",
                "passes on the names of the list alone; any other is 404 `model_not_found`",
            ),
        },
    ),
    "request.max_tokens_field": FactInWords(
        "Asking it",
        "The limit of an answer",
        {
            "max_tokens": Told("is read as `max_tokens`", "says it so"),
            "max_completion_tokens": Told(
                "is read as `max_completion_tokens`",
                "says it so",
            ),
            "both": Told("is read under both names, or under one that the model decides", "sends what the client says"),
        },
    ),
    "request.always_send": FactInWords(
        "Asking it",
        "What it has to be told",
        lambda value: Told(
            f"is {', '.join(f'`{name}: {json.dumps(held)}`' for name, held in value.items()) or 'nothing'}",
            "adds it where the client does not say otherwise",
        ),
    ),
    # ------------------------------------------------------------- tools
    "request.tools": _fact(
        "Tools",
        "A request with tools",
        "refuses it (400 `unsupported_parameter`) unless its `tool_choice` is `none`",
    ),
    **dict(
        (
            _choice(
                "auto",
                '`tool_choice: "auto"`',
                _SENT,
                rejected=Told("is refused", "leaves it out: it is what holds without it"),
            ),
            _choice(
                "none",
                '`tool_choice: "none"`',
                "offers no tools",
                ignored=Told("is taken, and the model may call all the same", "offers no tools"),
            ),
            _choice(
                "required",
                '`tool_choice: "required"`',
                _CALL,
                ignored=Told("is taken, and the model may answer in text all the same", f"sends it, {_CALL}"),
                rejected=Told("is refused", f"says `auto`, {_CALL}"),
            ),
            _choice(
                "named",
                "`tool_choice` with a function's name",
                "offers that tool alone, and goes on as for `required`",
                ignored=Told(
                    "is taken, and another tool, or none, may be called",
                    "offers that tool alone, and goes on as for `required`",
                ),
            ),
            _choice(
                "allowed_tools",
                '`tool_choice: {"type": "allowed_tools"}`',
                "offers these tools alone",
                unknown="offers these tools alone",
            ),
        )
    ),
    "request.legacy_functions": _fact(
        "Tools", "The deprecated `functions` or `function_call`", "says it as `tools` and `tool_choice`"
    ),
    "request.empty_tools": _fact(
        "Tools",
        "`tools: []`, or a choice without tools",
        "leaves it out",
        ignored=Told("is taken, and has no effect", _SENT),
    ),
    "request.tool_strict": _fact(
        "Tools", "`strict` in a tool", "leaves it out", ignored=Told("is taken, and has no effect", _SENT)
    ),
    "request.empty_parameters": _fact("Tools", "A tool without `parameters`", "gives it the schema of an empty object"),
    "request.stream_with_tools": _fact(
        "Tools", "A stream of a request with tools", "asks for the whole answer and makes the stream of it"
    ),
    # ------------------------------------------------------------- formats
    "request.response_format.json_object": _fact(
        "Formats",
        "`response_format: json_object`",
        _JSON,
        rejected=Told(
            "is refused",
            f"asks for the schema of any object where the server keeps schemas, else {_JSON}",
        ),
    ),
    "request.response_format.json_schema": _fact(
        "Formats", "`response_format: json_schema`", _JSON, rejected=Told("is refused", f"leaves it out, {_JSON}")
    ),
    "request.response_format.json_object_needs_word": FactInWords(
        "Formats",
        "`json_object` without the word JSON in the messages",
        {True: Told("is refused", "adds the word to the system message"), False: Told("is taken", _SENT)},
    ),
    "request.response_format.schema_binds_reasoning": FactInWords(
        "Formats",
        "A schema",
        {
            True: Told(
                "holds the reasoning too, so that the JSON arrives as reasoning",
                "turns the reasoning off for such a request (`reasoning_effort: none`)",
            ),
            False: Told("holds the answer alone", _SENT),
        },
    ),
    # ------------------------------------------------------------- messages
    "request.images": _fact("Messages", "An image", "refuses it at once (400 `image_not_supported`)"),
    "request.remote_images": FactInWords(
        "Messages",
        "An image given as a URL",
        {
            "kept": Told(
                "is fetched by the server, which gets one only"
                " [as a provider's service, or by your word](../rules.md#what-servers-fetch)",
                _SENT,
            ),
            "ignored": Told("is taken, and has no effect", _NO_URL),
            "rejected": Told("is refused", _NO_URL),
            "unknown": Told("was not observed, or depends on the model or on a flag", _SENT),
            "withheld": Told("would be fetched from inside of your network", _NO_URL),
        },
    ),
    "request.audio": _fact("Messages", "Audio", "refuses it at once (400 `audio_not_supported`)"),
    "request.files": _fact(
        "Messages", "A file", "puts the text of a text file into the message; any other is 400 `file_not_supported`"
    ),
    "request.content_parts": _fact(
        "Messages",
        "Text as a list of parts",
        "joins it to one string",
        ignored=Told("is taken, and not read as one text", "joins it to one string"),
    ),
    "request.tool_content_parts": _fact(
        "Messages",
        "A tool's result as a list of parts",
        "joins it to one string",
        ignored=Told("is taken, and not read as one text", "joins it to one string"),
    ),
    "request.null_content": _fact("Messages", "`content: null` beside calls", "says the empty string"),
    "request.missing_content": _fact("Messages", "No `content` beside calls", "says the empty string"),
    "request.developer_role": _fact(
        "Messages",
        "The role `developer`",
        "says `system`",
        ignored=Told("is taken, and the message has no effect", "says `system`"),
        unknown="says `system`",
    ),
    "request.late_system": _fact(
        "Messages",
        "A `system` message that is not the first",
        "puts all of them in front, as one",
        ignored=Told("is taken, and has no effect where it stands", "puts all of them in front, as one"),
    ),
    "request.consecutive_roles": _fact("Messages", "Two messages of one role in a row", "makes one of them"),
    "request.call_ids": FactInWords(
        "Messages",
        "The id of an earlier call",
        {
            "any": Told("can be any", _SENT),
            "alphanumeric_9": Told("has to be nine letters and digits", "gives it one, the same in call and result"),
        },
    ),
    "request.tool_message_name": FactInWords(
        "Messages",
        "`name` in a tool's result",
        {
            "any": Told("can be there or not", _SENT),
            "required": Told("has to be there", "adds it, from the call that the result belongs to"),
            "rejected": Told("is refused", "leaves it out"),
        },
    ),
    "request.refusal_parts": _fact("Messages", "An earlier refusal", "says it as text", unknown="says it as text"),
    "request.empty_arguments": _fact(
        "Messages",
        "An earlier call with empty arguments",
        "says `{}`",
        ignored=Told("is taken, and not read as a call without arguments", "says `{}`"),
        unknown="says `{}`",
    ),
    "request.reasoning_history": FactInWords(
        "Messages",
        "Reasoning of earlier turns",
        {
            "reasoning_content": Told("goes back as `reasoning_content`", "says it so, whatever the client calls it"),
            "reasoning": Told("goes back as `reasoning`", "says it so, whatever the client calls it"),
            "none": Told("has no key to go back under", "leaves it out"),
        },
    ),
    # ------------------------------------------------------------- optional fields
    "request.optional_fields": FactInWords("Optional fields", "Optional fields", _listed),
    "request.reasoning_efforts": FactInWords("Optional fields", "The value of `reasoning_effort`", _efforts),
    "request.stop": _fact(
        "Optional fields",
        "`stop`",
        _SENT,
        ignored=Told("is taken, and does not end the answer", "sends it and says `ignored=stop`"),
        rejected=Told("is refused", "sends it, and the refusal back: without it the answer would be another"),
    ),
    "request.stream_logprobs": _fact(
        "Optional fields",
        "`logprobs` in a stream",
        "",
        ignored=Told("do not come", "asks for a whole answer where the client does; a stream says `ignored=logprobs`"),
        rejected=Told("are refused", "asks for a whole answer where the client does; of a stream it leaves them out"),
    ),
    "request.stream_logprobs_with_tools": _fact(
        "Optional fields",
        "`logprobs` in a stream with tools",
        "",
        ignored=Told("do not come", "asks for a whole answer where the client does; a stream says `ignored=logprobs`"),
        rejected=Told("are refused", "asks for a whole answer where the client does; of a stream it leaves them out"),
    ),
    "request.unknown_fields": _fact(
        "Optional fields",
        "A field outside the protocol",
        "leaves it out and says so",
        ignored=Told("is taken, and has no effect", "sends it"),
        rejected=Told("is refused", "leaves it out and says `drop=FIELD`"),
    ),
    # ------------------------------------------------------------- its answers
    "response.reasoning": FactInWords(
        "Its answers",
        "Reasoning",
        {
            "field": Told("comes in a field of its own, or between tags", "gives it as `reasoning_content`"),
            "think_tags_preopened": Told(
                "comes as text whose opening tag is missing",
                "gives what stands before `</think>` as `reasoning_content`",
            ),
        },
    ),
    "response.content": FactInWords(
        "Its answers",
        "A piece of text in a stream",
        {
            "incremental": Told("is what is new", "passes it on"),
            "cumulative": Told("repeats the whole text so far", "passes on what is new"),
        },
    ),
    "response.text_calls": FactInWords(
        "Its answers",
        "A tool call that is written as text",
        {
            True: Told("can come", "makes it a call where the request offers tools"),
            False: Told("is text that somebody wants", "leaves it text"),
        },
    ),
    "response.headers": FactInWords(
        "Its answers",
        "Headers",
        lambda value: (
            Told(f"tell something: {', '.join(f'`{name}`' for name in value)}", "passes them on")
            if value
            else Told("say nothing that a client needs", "passes none of them on")
        ),
    ),
    # ------------------------------------------------------------- its models
    "models.hidden": FactInWords(
        "Its models",
        "Models that are listed and do not chat",
        lambda value: Told(
            f"match {', '.join(f'`{pattern}`' for pattern in value) or 'nothing'}",
            "leaves them out of `GET /v1/models`, and shows them with `?all=true`",
        ),
    ),
}
"""By the dotted path that profiles and their evidence use."""
