"""The page that compares the servers: what each does with what a request can say, in tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from docs.generate.exchanges import of_profile
from docs.generate.server import known_from
from svir_proxy.profiles.schema import Profile


@dataclass(frozen=True, slots=True)
class Section:
    """One table of the page: each column is a title and the dotted path of a fact."""

    title: str
    columns: tuple[tuple[str, str], ...]


SECTIONS: Final = (
    Section(
        "Tools",
        (
            ("tools", "request.tools"),
            ("`auto`", "request.tool_choice.auto"),
            ("`none`", "request.tool_choice.none"),
            ("`required`", "request.tool_choice.required"),
            ("named function", "request.tool_choice.named"),
            ("in a stream", "request.stream_with_tools"),
            ("`strict`", "request.tool_strict"),
            ("no parameters", "request.empty_parameters"),
            ("`functions`", "request.legacy_functions"),
            ("`parallel_tool_calls`", "request.optional_fields.parallel_tool_calls"),
        ),
    ),
    Section(
        "Answers",
        (
            ("`json_object`", "request.response_format.json_object"),
            ("`json_schema`", "request.response_format.json_schema"),
            ("`stop`", "request.stop"),
            ("usage in a stream", "request.optional_fields.stream_options"),
            ("`reasoning_effort`", "request.optional_fields.reasoning_effort"),
            ("`logprobs`", "request.optional_fields.logprobs"),
            ("`seed`", "request.optional_fields.seed"),
            ("penalties", "request.optional_fields.presence_penalty"),
            ("`logit_bias`", "request.optional_fields.logit_bias"),
            ("unknown fields", "request.unknown_fields"),
        ),
    ),
    Section(
        "Messages",
        (
            ("images", "request.images"),
            ("image URLs", "request.remote_images"),
            ("audio", "request.audio"),
            ("files", "request.files"),
            ("text as parts", "request.content_parts"),
            ("tool results as parts", "request.tool_content_parts"),
            ("null content", "request.null_content"),
            ("no content", "request.missing_content"),
            ("`developer`", "request.developer_role"),
            ("late `system`", "request.late_system"),
            ("one role twice", "request.consecutive_roles"),
            ("reasoning goes back as", "request.reasoning_history"),
        ),
    ),
    Section(
        "Connections",
        (
            ("chat", "endpoint.chat_path"),
            ("models", "endpoint.models_path"),
            ("key", "endpoint.auth"),
            ("always streamed", "request.stream"),
            ("other model names", "request.model"),
            ("output limit", "request.max_tokens_field"),
        ),
    ),
)

_WORDS: Final = {
    "request.stream": {"always": "yes", "as_client": "no"},
    "request.model": {"any": "answered", "listed": "refused", "loads": "loaded"},
}
_UNKNOWN: Final = "?"

_HEAD: Final = """\
<!-- Made by python -m docs.generate from svir_proxy/profiles; change those. -->

# Servers

Each server has a page: what is odd about it, what the proxy does about that, how to configure it, and what it sends.
This page compares them. Your server is not here? [Add it](add-your-server.md).

{servers}

## What they do with a request

| word | what the server does with it |
| --- | --- |
| kept | accepts and honours it |
| ignored | accepts it, without the effect it should have |
| rejected | answers with an error |
| ? | not observed, or it depends on the model or on the server's flags |

What the proxy makes of the last three is one decision for all servers: it keeps the demand true in another way, leaves
the field out and says so in [`x-svir-rewrites`](../rewrites.md), or refuses the request with a clear error. Any fact
can be set for one backend under `overrides`; `svir-proxy explain` shows what a request becomes.
"""


def render(profiles: Iterable[Profile]) -> str:
    """The whole page, in Markdown, for *profiles* in their order."""
    listed = list(profiles)
    blocks = [
        _HEAD.replace(
            "{servers}",
            "\n".join(_table(("server", "profile", "known from", "recorded exchanges"), map(_entry, listed))),
        )
    ]
    for section in SECTIONS:
        titles = [title for title, _ in section.columns]
        rows = [[f"[{profile.name}]({profile.name}.md)", *_cells(profile, section)] for profile in listed]
        blocks.append("\n".join((f"### {section.title}\n", *_table(["server", *titles], rows), "")))
    return "\n".join(blocks)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(titles)} |"
    yield f"|{' --- |' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _entry(profile: Profile) -> Sequence[str]:
    page = f"[{profile.server}]({profile.name}.md)"
    return page, f"`{profile.name}`", known_from(profile), str(len(of_profile(profile.name)) or "")


def _cells(profile: Profile, section: Section) -> Iterator[str]:
    for _, path in section.columns:
        value = _fact(profile, path)
        value = _WORDS.get(path, {}).get(value, value)
        yield _UNKNOWN if value == "unknown" else f"`{value}`" if value.startswith("/") else value


def _fact(profile: Profile, path: str) -> str:
    try:
        return str(profile.fact(path))
    except KeyError:  # a field that this profile does not list
        return "unknown"
