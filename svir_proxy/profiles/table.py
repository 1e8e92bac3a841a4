"""What each server does with what a request can say, as a page for people, made from the profiles themselves.

``python -m svir_proxy.profiles.table > docs/servers/README.md``
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from svir_proxy.profiles.loader import builtin_names, load_profile
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
# Servers

Made from the profiles by `python -m svir_proxy.profiles.table`; change those, not this page. Your server is not here?
[Add it](add-your-server.md).

| word | what the server does with it |
| --- | --- |
| kept | accepts and honours it |
| ignored | accepts it, without the effect it should have |
| rejected | answers with an error |
| ? | not observed, or it depends on the model or on the server's flags |

What the proxy makes of the last three is one decision for all servers: it keeps the demand true in another way, leaves
the field out and says so in `x-svir-rewrites`, or refuses the request with a clear error. Any fact can be set for one
backend under `overrides`; `svir-proxy explain` shows what a request becomes.
"""


def render(profiles: Iterable[Profile]) -> str:
    """The whole page, in Markdown, for *profiles* in their order."""
    listed = list(profiles)
    blocks = [_HEAD]
    for section in SECTIONS:
        titles = [title for title, _ in section.columns]
        rows = [[_anchor(profile), *_cells(profile, section)] for profile in listed]
        blocks.append("\n".join((f"## {section.title}\n", *_table(["server", *titles], rows), "")))
    blocks += ["\n".join((*_portrait(profile), "")) for profile in listed]
    return "\n".join(blocks)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(titles)} |"
    yield f"|{' --- |' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _anchor(profile: Profile) -> str:
    return f"[{profile.name}](#{profile.name})"


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


def _portrait(profile: Profile) -> Iterator[str]:
    yield f"## {profile.name}\n"
    yield f"{profile.server}. {profile.notes}\n"
    where = f"Ready to use: [`config/backends/{profile.name}.yaml`](../../config/backends/{profile.name}.yaml)."
    ports = ", ".join(map(str, profile.discovery.ports))
    yield f"{where} Found by itself on port {ports}." if ports else where
    yield f"Known from: {'; '.join(map(_source, profile.observed))}.\n"
    if profile.evidence:
        yield from _table(
            ("fact", "is", "seen"),
            ([f"`{path}`", _value(profile, path), _cell(seen)] for path, seen in profile.evidence.items()),
        )


def _source(observation: object) -> str:
    source, version, ref = (getattr(observation, name) for name in ("source", "version", "ref"))
    return " ".join(word for word in (source, version, f"({ref})" if ref else None) if word)


def _value(profile: Profile, path: str) -> str:
    value = profile.fact(path)
    return _cell(f"`{value}`") if isinstance(value, str | bool | int) else "see the profile"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    sys.stdout.write(render(load_profile(name) for name in builtin_names()))
