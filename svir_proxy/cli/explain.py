"""``svir-proxy explain``: what would go to a backend for a request, and why, without sending it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svir_proxy.cli import BAD_CONFIGURATION, COMMANDS, FAILED, OK
from svir_proxy.cli.configuration import add_config_option, report

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from svir_proxy.client_request import ClientRequest
    from svir_proxy.request import UpstreamRequest
    from svir_proxy.settings import Backend, Settings


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "explain",
        help=COMMANDS["explain"],
        description="Show what would go to a backend for a request, and why, without sending it.",
    )
    add_config_option(parser)
    parser.add_argument("--backend", metavar="NAME", help="the backend; without it the one the model is an alias of")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("request", metavar="REQUEST.json", help="the request body; - reads standard input")


def run(args: argparse.Namespace) -> int:
    """Rewrite the request as ``serve`` would, and say what was changed."""
    # Imported here: --help need not wait for pydantic.
    from svir_proxy.client_request import ClientRequest  # noqa: PLC0415 - see above
    from svir_proxy.errors import ProxyError  # noqa: PLC0415 - see above
    from svir_proxy.request import rewrite_request  # noqa: PLC0415 - see above
    from svir_proxy.settings import SettingsError, load_settings  # noqa: PLC0415 - see above

    try:
        settings = load_settings(args.config)
    except SettingsError as exc:
        report(exc)
        return BAD_CONFIGURATION
    try:
        raw = sys.stdin.buffer.read() if args.request == "-" else Path(args.request).read_bytes()
    except OSError as exc:
        print(f"{args.request}: cannot be read: {exc.strerror}", file=sys.stderr)
        return FAILED
    try:
        request = ClientRequest.from_json(raw, id="explain", received=1)
        (backend, model), *others = _routes(settings, request, args.backend)
        rewritten = rewrite_request(_with_images(request, backend), backend.loaded_profile, model)
    except LookupError as exc:
        print(exc.args[0], file=sys.stderr)
        return FAILED
    except ProxyError as error:
        print(json.dumps({"status": error.status, **error.envelope()}, indent=2, ensure_ascii=False))
        return OK
    try:
        rules = _rules(settings, request.model, [(backend, model), *others])
        text = _explanation(backend, [other.name for other, _ in others], rewritten, rules, as_json=args.json)
    except RecursionError:
        print(f"{args.request}: is nested too deeply to be shown", file=sys.stderr)
        return FAILED
    print(text)
    return OK


def _routes(settings: Settings, request: ClientRequest, name: str | None) -> list[tuple[Backend, str]]:
    """The backends that *request* goes to, in their order, as far as the configuration alone tells, and their ids."""
    from svir_proxy.server.aliases import Aliases  # noqa: PLC0415 - as in run
    from svir_proxy.server.routing import conversation, in_order  # noqa: PLC0415 - as in run

    backends, model = settings.backends, request.model
    if name is not None:
        backends = [backend for backend in backends if backend.name == name]
        if not backends:
            raise LookupError(f"--backend {name}: there is no such backend")
    by_priority = sorted(backends, key=lambda backend: backend.priority)
    aliases = Aliases((backend, backend.models) for backend in by_priority)
    means = aliases.exact.get(model) or aliases.matching(model) or aliases.rest(model)
    if means:
        return in_order(means, lambda route: route[0], conversation(request))
    if not backends:
        raise LookupError("no backend is configured; name a configuration that has one with --config")
    if len(backends) != 1:
        known = ", ".join(backend.name for backend in backends)
        raise LookupError(f"which backend has {model!r}? Name it with --backend ({known})")
    return [(backends[0], model)]


def _with_images(request: ClientRequest, backend: Backend) -> ClientRequest:
    """*request* with a word in the place of each image that ``serve`` would fetch."""
    if backend.remote_images != "inline" or "image" not in request.part_kinds:
        return request
    import asyncio  # noqa: PLC0415 - as in run
    from dataclasses import replace  # noqa: PLC0415 - as in run

    from svir_proxy.server.remote_images import inline_images  # noqa: PLC0415 - as in run

    async def fetch(url: str) -> str:
        return f"data:image/*;base64,(fetched from {url})"

    return replace(request, body=asyncio.run(inline_images(request.body, fetch)))


def _rules(settings: Settings, asked: str, routes: list[tuple[Backend, str]]) -> dict[str, Any]:
    """What the operator says about answers of the model *asked* for, which goes along *routes*."""
    from svir_proxy.server.aliases import Aliases  # noqa: PLC0415 - as in run
    from svir_proxy.server.deprecation import Deprecation  # noqa: PLC0415 - as in run
    from svir_proxy.server.model_names import is_like  # noqa: PLC0415 - as in run

    names = {asked, *(model for _, model in routes)}
    is_known = names != {asked}
    aliases = Aliases((backend, backend.models) for backend in settings.backends)
    if asked not in aliases.exact and not aliases.matching(asked):
        names.update(name for backend, model in routes for name in aliases.names_of(backend, model))
    found = []
    for rule in settings.rules.answers:
        is_named = not rule.models or any(is_like(name, model) for name in names for model in rule.models)
        if is_named or not is_known:  # which the servers may not list: then any model may answer
            told: dict[str, Any] = {"name": rule.name, "action": rule.action, "keys": rule.keys}
            found.append(told | {"certain": is_named})
    return {"answers": found, "deprecated": Deprecation(settings.rules.deprecated).told(asked)}


def _explanation(
    backend: Backend, others: list[str], rewritten: UpstreamRequest, rules: dict[str, Any], *, as_json: bool
) -> str:
    """What the command prints; raises RecursionError for a body that servers may read all the same."""
    if as_json:
        return json.dumps(_as_json(backend, others, rewritten) | {"rules": rules}, indent=2, ensure_ascii=False)
    return "\n".join((*_in_words(backend, others, rewritten), *_rules_in_words(rules), *_body_in_words(rewritten)))


def _as_json(backend: Backend, others: list[str], rewritten: UpstreamRequest) -> dict[str, Any]:
    from dataclasses import asdict  # noqa: PLC0415 - as in run

    from svir_proxy.request.reasons import reason  # noqa: PLC0415 - as in run

    profile = backend.loaded_profile
    return {
        "backend": backend.name,
        "otherwise": others,
        "profile": profile.name,
        "url": _url(backend),
        "rewrites": [asdict(reason(note, profile)) for note in rewritten.notes],
        "checked": rewritten.expectation.fact if rewritten.expectation is not None else None,
        "body": rewritten.body,
    }


def _in_words(backend: Backend, others: list[str], rewritten: UpstreamRequest) -> Iterator[str]:
    from svir_proxy.request.reasons import reason  # noqa: PLC0415 - as in run

    profile = backend.loaded_profile
    yield f"backend   {backend.name} ({profile.server}, profile {profile.name})"
    if others:
        yield f"otherwise {', then '.join(others)}: where that one fails before any output, or is known to"
    yield f"request   POST {_url(backend)}"
    if not rewritten.notes:
        yield "rewrites  none"
    for note in rewritten.notes:
        why = reason(note, profile)
        yield f"rewrite   {note}"
        yield f"          {why.done}"
        if why.fact is not None:
            yield f"          because {why.fact} is {why.value!r}" + (f": {why.evidence}" if why.evidence else "")
    if rewritten.expectation is not None:
        yield f"answer    is held and checked for {rewritten.expectation.fact}, asked again once, then noted as unmet"


def _rules_in_words(rules: dict[str, Any]) -> Iterator[str]:
    for rule in rules["answers"]:
        does = "is held, and blocked" if rule["action"] == "block" else "is held, and redacted,"
        whose = f", for the keys {', '.join(rule['keys'])}" if rule["keys"] else ""
        when = "" if rule["certain"] else ", if no server lists the model"
        yield f"answer    {does} where rule {rule['name']} finds something{whose}{when}"
    if rules["deprecated"] is not None:
        yield f"answer    has the header X-AI-Model-Deprecated: {rules['deprecated']}"


def _body_in_words(rewritten: UpstreamRequest) -> Iterator[str]:
    yield "body"
    yield json.dumps(_shortened(rewritten.body), indent=2, ensure_ascii=False)


def _url(backend: Backend) -> str:
    return f"{backend.root}{backend.loaded_profile.endpoint.chat_path}"


def _shortened(value: Any) -> Any:
    """*value* with long texts (images) cut, for reading."""
    if isinstance(value, str):
        return value if len(value) <= 2000 else f"{value[:200]}… ({len(value)} characters)"
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    return value
