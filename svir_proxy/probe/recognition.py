"""Gets to know a server before it is asked: what kind it is, where it is asked, with which key, for which model."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from svir_proxy.probe.answer import Answer, Reader
from svir_proxy.probe.dialogue import HELLO, excerpt
from svir_proxy.probe.finding import Finding, NotInterviewed
from svir_proxy.probe.interview import Spent
from svir_proxy.probe.subject import Subject
from svir_proxy.probe.wire import HTTPWire, key_headers
from svir_proxy.profiles import Profile
from svir_proxy.response.json_text import loads
from svir_proxy.response.model_list import ListedModel, read_model_list
from svir_proxy.server.discovery import recognize

SECONDS: Final = 10.0
"""For each look; a server that is busy answers a GET late."""
LOADING_SECONDS: Final = 60.0
"""For the first chat request: a model that is not loaded is loaded meanwhile."""

_MODELS: Final = ("/v1/models", "/models")
_CHAT: Final = ("/v1/chat/completions", "/chat/completions")
_NO_KEY: Final = (401, 403)
_NO_PATH: Final = (404, 405, 501)
_CONTEXT: Final = ("max_model_len", "context_length", "max_context_length", "context_window", "n_ctx")
"""Keys under which a list tells how long a prompt may be."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """What is known before the first question.

    Attributes:
        subject: What will be asked.
        others: How many more chat models it lists.
        findings: What differs from its profile already.
    """

    subject: Subject
    others: int
    findings: tuple[Finding, ...]


async def kind_of(client: httpx.AsyncClient, root: str, key: str | None, profiles: Sequence[Profile]) -> Profile | None:
    """The profile whose signature the server at *root* has; None: that of no one."""
    client.headers.update(key_headers("bearer", key))
    found = await recognize(client, root, profiles, seconds=SECONDS)
    client.headers.pop("authorization", None)
    if found is None:
        return None
    return next((profile for profile in profiles if profile.name == found.profile), None)


async def introduce(wire: HTTPWire, base: Profile, root: str, model: str | None, spent: Spent) -> Introduction:
    """Find paths, key and model, adding to *spent*; NotInterviewed where that cannot be done."""
    findings: list[Finding] = []
    listed, answer = await _list(wire, base, findings)
    chat = [each for each in listed or () if each.chat]
    if model is None:
        if not chat:
            raise NotInterviewed(_no_model(listed, answer))
        model = chat[0].id
    subject = Subject(
        model=model,
        base=base,
        local=is_private(root),
        context=_context(answer, model),
    )
    subject.limit = "max_tokens" if base.request.max_tokens_field == "both" else base.request.max_tokens_field
    await _find_chat(wire, subject, Reader(base, (wire.key,) if wire.key else ()), findings, spent)
    others = len([each for each in chat if each.id != model])
    return Introduction(subject, others, tuple(findings))


async def _list(wire: HTTPWire, base: Profile, findings: list[Finding]) -> tuple[list[ListedModel] | None, Answer]:
    """The model list, wherever it is and however the key is shown."""
    first: Answer | None = None
    for path in dict.fromkeys((base.endpoint.models_path, *_MODELS)):
        answer = await wire.get(path, SECONDS)
        if answer.status is None:
            untrusted = "CERTIFICATE" in answer.trouble
            remedy = (
                "name the authority that signed it with --ca-file"
                if untrusted
                else "start the server, or check the URL"
            )
            raise NotInterviewed(f"{answer.trouble}; {remedy}")
        if answer.status in _NO_KEY and wire.key is not None and wire.endpoint.auth == "bearer":
            usual = wire.endpoint
            wire.endpoint = usual.model_copy(update={"auth": "api-key"})
            other = await wire.get(path, SECONDS)
            if other.status in _NO_KEY:
                wire.endpoint = usual
            else:
                answer = other
                findings.append(Finding("endpoint.auth", "api-key", "the key is refused as a bearer token"))
        if answer.status in _NO_KEY:
            said = f"GET {path}: {answer.status}"
            raise NotInterviewed(
                f"the server refuses the key ({said}); check the variable that --api-key-env names"
                if wire.key is not None
                else f"the server asks for a key ({said}); name the variable that holds it with --api-key-env"
            )
        first = first or answer
        listed = (
            read_model_list(answer.body, hidden=base.models.hidden, created=1, owned_by="")
            if answer.status == httpx.codes.OK
            else None
        )
        if listed is not None:
            if path != base.endpoint.models_path:
                findings.append(
                    Finding("endpoint.models_path", path, f"the list is there, not at {base.endpoint.models_path}")
                )
            return listed, answer
    assert first is not None
    return None, first


def _no_model(listed: list[ListedModel] | None, answer: Answer) -> str:
    if listed is None:
        said = excerpt(answer.body[:200].decode("utf-8", "replace"))
        return (
            f"no model server answered: its model list is {answer.status} {said!r}; check the URL, or name a model "
            "with --model if it has no list"
        )
    if not listed:
        return "the server lists no model; load one, or name it with --model"
    return f"the server lists no chat model (but {listed[0].id!r}); name one with --model"


async def _find_chat(wire: HTTPWire, subject: Subject, reader: Reader, findings: list[Finding], spent: Spent) -> None:
    """Look where chat requests are taken; a model that has to be loaded is loaded meanwhile."""
    usual = wire.endpoint
    for path in dict.fromkeys((usual.chat_path, *_CHAT)):
        wire.endpoint = wire.endpoint.model_copy(update={"chat_path": path})
        ask = subject.ask(HELLO, room=subject.least)
        reading = reader.read(ask, await wire.ask(ask, LOADING_SECONDS), subject.response)
        spent.count(ask, reading)
        if reading.status not in _NO_PATH or reading.kind != "upstream_bad_response":
            if path != usual.chat_path:
                findings.append(Finding("endpoint.chat_path", path, f"chat is there, not at {usual.chat_path}"))
            return
    wire.endpoint = usual


def _context(answer: Answer, model: str) -> int | None:
    """How many tokens a prompt may have, if the list says so."""
    try:
        listed = loads(answer.body)
    except ValueError:
        return None
    entries = listed.get("data") if isinstance(listed, dict) else listed
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("id") == model:
            told: list[Any] = [entry.get(key) for key in _CONTEXT]
            return next((size for size in told if type(size) is int and size > 0), None)
    return None


def is_private(root: str) -> bool:
    """Whether a URL leads to this machine or into a private network, as far as its host tells."""
    host = urlsplit(root).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local", ".internal", ".lan")) or "." not in host
    return address.is_private or address.is_loopback
