"""The page of one server, from its profile and its recorded exchanges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from docs.generate.exchanges import GAP, excerpts, of_profile
from docs.generate.facts import AREAS, FACTS, OPTIONAL_FIELD, SENT, FactInWords
from docs.generate.markdown import cell, prose
from svir_proxy.conform.cases import Case
from svir_proxy.errors import KINDS, Kind
from svir_proxy.profiles.loader import load_profile
from svir_proxy.profiles.schema import ErrorRule, Profile

ROOT: Final = Path(__file__).parents[2]

_MADE: Final = "<!-- Made by python -m docs.generate from the profile {name} and tests/cases; change those. -->"
_PLAIN: Final = ("kept", "unknown")
_DEFAULTS: Final = Profile.model_validate({"name": "default", "server": "default", "observed": [{"source": "docs"}]})
_ORIGINS: Final = {
    "recorded": "recordings of a running server",
    "run": "trials of a running server",
    "protocol": "notes taken while writing a client",
    "docs": "its documentation",
    "report": "reports",
    "code": "its source code",
    "probe": "`svir-proxy probe`",
}


def render(profile: Profile) -> str:
    """The whole page, in Markdown."""
    blocks = [
        _MADE.format(name=profile.name),
        f"# {_title(profile.server)}",
        f"`profile: {profile.name}`. Known from {known_from(profile)}. [All servers](README.md).",
        prose(profile.notes),
        *_configuration(profile),
        *_oddities(profile),
        *_errors(profile),
        *_plain(profile),
        *_on_the_wire(profile),
        *_evidence(profile),
        *_recorded(profile),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _title(server: str) -> str:
    """A name as it is written; a description with a capital."""
    return server if " " not in server else server[0].upper() + server[1:]


def known_from(profile: Profile) -> str:
    """Where the facts of a profile come from: each source once, with the versions."""
    versions: dict[str, list[str]] = {}
    for observation in profile.observed:
        versions.setdefault(observation.source, []).extend([observation.version] if observation.version else [])
    return ", ".join(
        f"{_ORIGINS[source]} ({', '.join(found)})" if found else _ORIGINS[source] for source, found in versions.items()
    )


def _configuration(profile: Profile) -> Iterator[str]:
    path = ROOT / "config" / "backends" / f"{profile.name}.yaml"
    yield "## Configure it"
    yield f"```yaml\n{path.read_text('utf-8').strip()}\n```"
    if profile.discovery.ports:
        ports = " or ".join(map(str, profile.discovery.ports))
        yield f"Without a configuration it is found by itself on port {ports} of the same machine."


# ----------------------------------------------------------------- what is odd


def _facts(profile: Profile) -> Iterator[tuple[str, FactInWords, Any]]:
    """Each fact with its path, its words and its value; optional fields one by one."""
    for path, fact in FACTS.items():
        if path == "request.optional_fields":
            for name, value in profile.request.optional_fields.items():
                yield f"{path}.{name}", OPTIONAL_FIELD, value
        else:
            yield path, fact, profile.fact(path)


def _is_odd(profile: Profile, path: str, value: Any) -> bool:
    """Whether a reader has to know: not what OpenAI does, and not what holds for every server."""
    if isinstance(value, str) and value in _PLAIN:
        return False
    if value == value_of(_DEFAULTS, path):
        return False
    return profile.name == "generic" or path in profile.evidence or value != value_of(load_profile("generic"), path)


def value_of(profile: Profile, path: str) -> Any:
    """The value of a fact; None where the profile does not list it."""
    try:
        return profile.fact(path)
    except KeyError:
        return None


def _oddities(profile: Profile) -> Iterator[str]:
    yield "## What is odd about it, and what the proxy does about it"
    found = False
    for area in AREAS:
        odd = [
            (path, fact, value)
            for path, fact, value in _facts(profile)
            if fact.area == area and _is_odd(profile, path, value)
        ]
        lines = [
            *_fields(odd, profile),
            *(_oddity(profile, *entry) for entry in odd if not _is_told_together(profile, *entry[:2])),
        ]
        if lines:
            found = True
            yield f"### {area}"
            yield "\n".join(lines)
    if not found:
        yield "Nothing is known that a request would have to be changed for. Answers are made right for every server."


def _oddity(profile: Profile, path: str, fact: FactInWords, value: Any) -> str:
    name = path.rpartition(".")[2]
    told = fact.of(value)
    server, proxy, label = (text.replace("{name}", name) for text in (*told, fact.label))
    seen = profile.evidence.get(path)
    return f"- **{label}** {server}. The proxy {proxy}." + (f" *Seen:* {_ended(seen)}" if seen else "")


def _fields(odd: Iterable[tuple[str, FactInWords, Any]], profile: Profile) -> Iterator[str]:
    """Optional fields without evidence of their own, those of one fate in one line."""
    together: dict[Any, list[str]] = {}
    for path, fact, value in odd:
        if _is_told_together(profile, path, fact):
            together.setdefault(value, []).append(f"`{path.rpartition('.')[2]}`")
    seen = profile.evidence.get("request.optional_fields")
    for value, names in together.items():
        told = OPTIONAL_FIELD.of(value)
        line = f"- **{', '.join(names)}**: each {told.server}. The proxy {told.proxy.replace('{name}', 'FIELD')}."
        yield line + (f" *Seen:* {_ended(seen)}" if seen else "")


def _ended(seen: str) -> str:
    """What was seen as a sentence, as far as it is one."""
    return prose(seen) + ("" if seen.endswith((".", "?", "!")) else ".")


def _is_told_together(profile: Profile, path: str, fact: FactInWords) -> bool:
    return fact is OPTIONAL_FIELD and path not in profile.evidence


def _errors(profile: Profile) -> Iterator[str]:
    if not profile.errors:
        return
    yield "### Its errors"
    yield "Most errors are told by their words, for every server alike. These are this server's own:"
    rows = [f"| {_condition(rule)} | {_outcome(KINDS[rule.then])} |" for rule in profile.errors]
    yield "\n".join(("| it says | a client gets |", "| --- | --- |", *rows))


def _outcome(kind: Kind) -> str:
    return f"{kind.status} `{kind.code}`" if kind.code else f"{kind.status}, with the server's own code"


def _condition(rule: ErrorRule) -> str:
    when = rule.when
    parts = [f"status {when.status}"] if when.status is not None else []
    parts += [f"{name} `{text}`" for name, text in (("code", when.code), ("type", when.type)) if text is not None]
    parts += [f"a message like `{cell(when.message)}`"] if when.message is not None else []
    return ", ".join(parts)


# ----------------------------------------------------------------- what is not


def _plain(profile: Profile) -> Iterator[str]:
    kept = [_label(path, fact) for path, fact, value in _facts(profile) if value == "kept"]
    if kept:
        yield "## What it keeps"
        yield f"{_sentence(kept)}."
    unknown = [
        (_label(path, fact), fact.of(value).proxy) for path, fact, value in _facts(profile) if value == "unknown"
    ]
    if unknown:
        yield "## What is not known"
        yield f"{_sentence(label for label, _ in unknown)}."
        known_to_all = [f"for {label} it {proxy}" for label, proxy in unknown if proxy != SENT]
        yield "; ".join(("The proxy sends these as they are, and learns from a refusal", *known_to_all)) + "."


def _sentence(labels: Iterable[str]) -> str:
    text = "; ".join(labels)
    return text[0].upper() + text[1:]


def _label(path: str, fact: FactInWords) -> str:
    label = fact.label.replace("{name}", path.rpartition(".")[2])
    return label if label.startswith("`") or label[1:2].isupper() else label[0].lower() + label[1:]


# ----------------------------------------------------------------- recordings


def _on_the_wire(profile: Profile) -> Iterator[str]:
    shown = list(excerpts(profile.name))
    if not shown:
        return
    yield "## On the wire"
    yield (
        f"First what the server sent, then what a client of the proxy gets of it. {GAP} stands for what a line"
        " repeats of the one before it, for the middle of a long stream, and for the rest of a long line."
    )
    for excerpt in shown:
        yield f"**{prose(excerpt.shows.rstrip('.'))}** ([{Path(excerpt.key).name}]({_link(excerpt.key)}))"
        yield f"```text\n{excerpt.server}\n```"
        yield f"```text\n{excerpt.client}\n```"


def _recorded(profile: Profile) -> Iterator[str]:
    cases = of_profile(profile.name)
    if not cases:
        return
    yield "## Recorded exchanges"
    yield (
        f"{len(cases)} in [tests/cases](../../tests/cases/README.md), each run through the proxy by the tests."
        if len(cases) > 1
        else "One in [tests/cases](../../tests/cases/README.md), run through the proxy by the tests."
    )
    lines = [f"- [{Path(case.key).name}]({_link(case.key)}){_whose(profile, case)}: {_shows(case)}" for case in cases]
    if len(lines) > 20:
        yield "<details><summary>All of them</summary>"
    yield "\n".join(lines)
    if len(lines) > 20:
        yield "</details>"


def _whose(profile: Profile, case: Case) -> str:
    """The server, on the page of all those that have none of their own."""
    return f", {prose(case.meta['server'])}" if profile.name == "generic" else ""


def _shows(case: Case) -> str:
    return prose(case.meta["shows"])


def _evidence(profile: Profile) -> Iterator[str]:
    refs = [observation.ref for observation in profile.observed if observation.ref and observation.source != "protocol"]
    rows = [f"| `{path}` | {_shown(profile, path)} | {cell(prose(seen))} |" for path, seen in profile.evidence.items()]
    if not rows:
        return
    yield "## Where the facts are from"
    if refs:
        yield f"Looked at: {'; '.join(map(prose, refs))}."
    yield "Any of them can be set for one backend under `overrides`."
    yield "\n".join(("| fact | is | seen |", "| --- | --- | --- |", *rows))


def _shown(profile: Profile, path: str) -> str:
    value = profile.fact(path)
    return f"`{value}`" if isinstance(value, str | bool) else "see above"


def _link(key: str) -> str:
    return f"../../tests/cases/{key}.case.json"
