"""One configured model server."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, field_validator, model_validator

from svir_proxy.addresses import may_be_public
from svir_proxy.profiles import Profile, ProfileError, builtin_names, load_profile
from svir_proxy.profiles.loader import merge
from svir_proxy.settings.base_url import normalize_base_url
from svir_proxy.settings.fields import KeyFile, Name, OptionalKey, PemFile, Seconds, Section
from svir_proxy.settings.headers import check_headers
from svir_proxy.settings.problems import Problem, in_words, join, several, suggest, unknown_key

if TYPE_CHECKING:
    from collections.abc import Iterable

_MANAGED: Final = frozenset(
    {"host", "connection", "content-length", "content-type", "transfer-encoding", "accept-encoding", "te", "upgrade"}
)
"""Headers that the proxy sets itself; another value would break the request."""


_REMOTE_IMAGES: Final = {"reject": "rejected", "pass": "kept"}


class Timeouts(Section):
    """How long a backend may be silent, in seconds."""

    connect: Seconds = 10.0
    """Until the connection stands."""
    first_output: Seconds = 600.0
    """From the request to the first output: loading a model and reading a long prompt take their time."""
    idle: Seconds = 300.0
    """Between two pieces of output. Keep-alives of the server do not count as output."""
    queue: Seconds = 30.0
    """In line for a place at the backend, where it has max_requests."""


class Backend(Section):
    """One model server: where it is, what it is, and what differs from its profile."""

    name: Name
    """Unique; names the backend in logs, metrics and the header x-svir-backend."""
    base_url: Annotated[str, AfterValidator(normalize_base_url)]
    """The server's URL, with or without /v1."""
    profile: str = "generic"
    """A built-in profile, or the path of a YAML profile."""
    api_key: OptionalKey = None
    """The key that the server asks for."""
    api_key_file: KeyFile | None = None
    """A file that holds the key, instead of api_key."""
    models: dict[Annotated[str, Field(min_length=1)], Annotated[str, Field(min_length=1)]] = Field(default={})
    """Aliases: the name that clients use, and the server's own id for it. A * in the name stands for any text, and in
    the id for the same text."""
    priority: int = 0
    """Of the backends that have a model, those with the lowest number are asked first, as with mail servers."""
    weight: float = Field(default=1.0, ge=0)
    """This backend's share of the conversations among those of its priority. 0: only where the others fail."""
    overrides: dict[str, Any] = Field(default={}, validate_default=True)
    """Any setting of the profile, for this backend only."""
    headers: dict[str, SecretStr] = Field(default={})
    """Headers sent with every request to this backend."""
    timeouts: Timeouts = Timeouts()
    """How long the backend may be silent."""
    max_requests: int | None = Field(default=None, ge=1)
    """Requests that the server gets at a time, from each worker; more wait in line. None: all it is asked."""
    max_waiting: int = Field(default=100, ge=0)
    """Requests that wait in that line; one more gets 503 overloaded with Retry-After."""
    strict: bool = False
    """Refuse a request whose tool_choice or response_format cannot be kept, instead of answering with a note."""
    expose_extras: bool = False
    """Pass fields outside the protocol (timings, ...) to the client, under the key svir."""
    verify_tls: bool = True
    """Check the server's certificate."""
    ca_file: PemFile | None = None
    """A PEM file with the authority that signed the server's certificate, instead of the usual ones."""
    remote_images: Literal["reject", "inline", "pass"] | None = None
    """What becomes of an image given as a URL: refused, fetched and put inline by the proxy, or left to the server.
    Not set: left to a cloud provider that takes it, else refused: the server would fetch it inside of your network."""

    @field_validator("models")
    @classmethod
    def _stars_say_one_thing(cls, models: dict[str, str]) -> dict[str, str]:
        problems: list[Problem] = []
        for alias, model in models.items():
            if alias.count("*") > 1:
                problems.append((alias, "has more than one * in the name; write one name for each"))
            elif model.count("*") > alias.count("*"):
                problems.append((alias, "has a * in the id for which the name has no text; name one model"))
        if problems:
            raise several(problems)
        return models

    @field_validator("overrides")
    @classmethod
    def _profile_loads(cls, overrides: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        # Here and not in a validator of the whole, which would not run beside a mistake in another field.
        problems = _profile_problems(info.data["profile"], overrides) if "profile" in info.data else []
        if problems:
            raise several(problems, up=1)
        return overrides

    @field_validator("headers")
    @classmethod
    def _headers_can_be_sent(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        check_headers(headers, _MANAGED)
        return headers

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        problems: list[Problem] = []
        if self.api_key is not None and self.api_key_file is not None:
            problems.append(("api_key_file", "stands beside api_key; keep one"))
        if self.ca_file is not None and not self.verify_tls:
            problems.append(("ca_file", "has no effect with verify_tls: false; leave one out"))
        if problems:
            raise several(problems)
        return self

    @property
    def root(self) -> str:
        """The URL that the profile's paths are below: no ``/v1``, no slash at the end."""
        return self.base_url

    @property
    def key(self) -> SecretStr | None:
        """The key for this server, wherever it was written."""
        return self.api_key if self.api_key_file is None else self.api_key_file.secret

    @cached_property
    def loaded_profile(self) -> Profile:
        """The profile with what this backend says otherwise."""
        fact = _REMOTE_IMAGES.get(self.remote_images or "")
        said = {"request": {"remote_images": fact}} if fact is not None else {}
        profile = load_profile(self.profile, merge(said, self.overrides))
        if self._is_trusted_with_urls(profile) or profile.request.remote_images in ("rejected", "ignored"):
            return profile
        request = profile.request.model_copy(update={"remote_images": "withheld"})
        return profile.model_copy(update={"request": request})

    def _is_trusted_with_urls(self, profile: Profile) -> bool:
        """Whether what the server fetches for a URL in a request is none of this network's, or the operator says so."""
        if self.remote_images == "pass":
            return True
        return profile.endpoint.cloud and may_be_public(urlsplit(self.base_url).hostname or "")


def unchanged(before: Iterable[Backend], now: Iterable[Backend]) -> frozenset[str]:
    """The names of the backends that are the same *now* as *before*, with their keys and profiles."""
    known = {backend.name: backend for backend in before}
    return frozenset(
        backend.name
        for backend in now
        if backend == (old := known.get(backend.name)) and backend.loaded_profile == old.loaded_profile
    )


def repeated_names(backends: list[Any]) -> list[Problem]:
    """Names that more than one of *backends* (models, or mappings not yet checked) has; paths begin at the list."""
    first: dict[str, int] = {}
    problems: list[Problem] = []
    for index, backend in enumerate(backends):
        name = backend.get("name") if isinstance(backend, dict) else getattr(backend, "name", None)
        if isinstance(name, str) and first.setdefault(name, index) != index:
            problems.append((f"[{index}].name", f"is the name of backends[{first[name]}] too; give it another"))
    return problems


def _profile_problems(profile: str, overrides: dict[str, Any]) -> list[Problem]:
    """Paths begin at the backend, which is one step up from the field that reports them."""
    if not profile.endswith((".yaml", ".yml")) and profile not in builtin_names():
        return [("profile", f"{suggest(profile, builtin_names())} (or the path of a .yaml file)")]
    if "extends" in overrides:
        return [("overrides.extends", "has no effect here; name the profile under profile")]
    try:
        load_profile(profile, overrides)
    except ProfileError as exc:
        problems = []
        for path, text in exc.problems:
            said = unknown_key(path, Profile) or in_words(text)
            if path and _holds(overrides, path):
                problems.append((join("overrides", path), said))
            else:
                problems.append(("profile", f"{exc.source}: {path}: {said}" if path else f"{exc.source} {said}"))
        return problems
    return []


def _holds(overrides: Any, path: str) -> bool:
    """Whether the mistake at *path* was made in *overrides* rather than in the profile."""
    at = overrides
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(at, dict) and step in at:
            at = at[step]
        else:
            return isinstance(at, list)
    return True
