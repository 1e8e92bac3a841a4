"""Finds the model servers that run on this machine, so that the proxy works without a configuration.

Only what the profiles name is looked at: their usual loopback ports, with GET requests for their signatures and the
model list. Nothing is stored, and nothing leaves this machine.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx
import orjson

from svir_proxy.profiles import Profile, builtin_names, load_profile
from svir_proxy.settings import Backend

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from svir_proxy.profiles.schema import Signature

CONNECT_SECONDS: Final = 0.5
TOTAL_SECONDS: Final = 1.5
MAX_BODY_BYTES: Final = 2**20
"""Of one answer; what comes after is not looked at."""

_GENERIC: Final = "generic"
_NAMED_MODELS: Final = 3


@dataclass(frozen=True, slots=True)
class Found:
    """A server that answered.

    Attributes:
        root: Its URL, without ``/v1``.
        profile: The name of the profile whose signature it has; ``generic`` where it only lists models.
        server: Its name as people write it.
        models: The ids it lists, in its order.
        needs_key: It answered 401 or 403: of no use before a configuration names its key.
    """

    root: str
    profile: str
    server: str
    models: tuple[str, ...]
    needs_key: bool = False

    def in_words(self) -> str:
        """One line for people."""
        if self.needs_key:
            return (
                f"found {self.server} on {self.root}, which asks for a key; "
                "name it in a configuration (backends, api_key) to use it"
            )
        return f"found {self.server} on {self.root} ({_models_in_words(self.models)})"


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    body: str


def builtin_profiles() -> list[Profile]:
    """Every profile that ships with the package."""
    return [load_profile(name) for name in builtin_names()]


async def discover(
    profiles: Sequence[Profile],
    *,
    skip_ports: Container[int] = (),
    transport: httpx.AsyncBaseTransport | None = None,
) -> list[Found]:
    """The servers on the loopback ports of *profiles*, in the order of the ports. Takes 1.5 seconds at most.

    *skip_ports* are not looked at: the proxy's own, first of all. *transport* replaces the network.
    """
    ports = [port for port in usual_ports(profiles) if port not in skip_ports]
    timeout = httpx.Timeout(TOTAL_SECONDS, connect=CONNECT_SECONDS)
    # Every path of every port at once: a pool that makes them wait would spend the time limit on waiting.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(transport=transport, timeout=timeout, limits=limits, trust_env=False) as client:
        found = await asyncio.gather(*(_look_at(client, port, profiles) for port in ports))
    return [server for server in found if server is not None]


def usual_ports(profiles: Iterable[Profile]) -> list[int]:
    """The ports that *profiles* name, each once, ascending."""
    return sorted({port for profile in profiles for port in profile.discovery.ports})


def in_words(found: Sequence[Found], ports: Sequence[int]) -> list[str]:
    """What to tell people about a search of *ports*, one line each."""
    if found:
        return [server.in_words() for server in found]
    listed = ", ".join(map(str, ports))
    return [
        f"no model server found on ports {listed}; start one, or write a configuration: svir-proxy serve --config FILE"
    ]


def as_backends(found: Iterable[Found]) -> list[Backend]:
    """Backends for the servers that can be used as they are; the port tells two of a kind apart."""
    usable = [server for server in found if not server.needs_key]
    kinds = [server.profile for server in usable]
    return [
        Backend(
            name=server.profile
            if kinds.count(server.profile) == 1
            else f"{server.profile}-{httpx.URL(server.root).port}",
            base_url=server.root,
            profile=server.profile,
        )
        for server in usable
    ]


async def recognize(
    client: httpx.AsyncClient, root: str, profiles: Sequence[Profile], *, seconds: float
) -> Found | None:
    """What answers at *root*, a URL without ``/v1``; of *profiles* with one signature the first; None: no server."""
    list_paths = {profile.name: profile.endpoint.models_path for profile in profiles}
    paths = {signature.path for profile in profiles for signature in profile.discovery.signatures}
    answers = await _answers(client, root, sorted(paths | set(list_paths.values())), seconds)
    if not answers:
        return None
    for profile in profiles:
        if any(_matches(signature, answers.get(signature.path)) for signature in profile.discovery.signatures):
            listed = answers.get(list_paths[profile.name])
            refused = listed is not None and listed.status in (401, 403)
            return Found(root, profile.name, profile.server, _models(listed) or (), refused)
    models = _models(answers.get(list_paths.get(_GENERIC, "/v1/models")))
    return None if models is None else Found(root, _GENERIC, "a model server of unknown kind", models)


async def _look_at(client: httpx.AsyncClient, port: int, profiles: Sequence[Profile]) -> Found | None:
    # Of profiles that share a signature, the one that names this port is meant.
    candidates = sorted(profiles, key=lambda profile: port not in profile.discovery.ports)
    return await recognize(client, f"http://127.0.0.1:{port}", candidates, seconds=TOTAL_SECONDS)


async def _answers(client: httpx.AsyncClient, root: str, paths: Iterable[str], seconds: float) -> dict[str, _Answer]:
    """What a server said within *seconds*, by path; nothing where no server listens."""
    asked = {asyncio.ensure_future(_get(client, root + path)): path for path in paths}
    done, late = await asyncio.wait(asked, timeout=seconds)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return {asked[task]: answer for task in done if (answer := task.result()) is not None}


async def _get(client: httpx.AsyncClient, url: str) -> _Answer | None:
    body = bytearray()
    try:
        async with client.stream("GET", url) as response:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) >= MAX_BODY_BYTES:
                    break
    except (httpx.HTTPError, httpx.InvalidURL):
        return None
    return _Answer(response.status_code, response.headers, body.decode("utf-8", "replace"))


def _matches(signature: Signature, answer: _Answer | None) -> bool:
    if answer is None:
        return False
    if signature.body is not None and not re.search(signature.body, answer.body):
        return False
    return all(re.search(pattern, answer.headers.get(name, "")) for name, pattern in signature.headers.items())


def _models(answer: _Answer | None) -> tuple[str, ...] | None:
    """The ids of a model list; None where the answer is none."""
    if answer is None or answer.status != httpx.codes.OK:
        return None
    try:
        listed = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(listed, dict) or "data" not in listed:
        return None
    entries = listed["data"] or []  # Ollama without a model says null
    if not isinstance(entries, list):
        return None
    ids = (entry.get("id") for entry in entries if isinstance(entry, dict))
    return tuple(name for name in ids if isinstance(name, str) and name)


def _models_in_words(models: Sequence[str]) -> str:
    if not models:
        return "it lists no model yet"
    named = ", ".join(models[:_NAMED_MODELS])
    rest = len(models) - _NAMED_MODELS
    return f"model{'s' if len(models) > 1 else ''} {named}{f' and {rest} more' if rest > 0 else ''}"
