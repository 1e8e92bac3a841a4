"""The settings of the proxy as a whole."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from svir_proxy.settings.auth import AuthSettings
from svir_proxy.settings.backend import Backend, repeated_names
from svir_proxy.settings.fields import Bytes, Seconds, Section, leave_out_unset
from svir_proxy.settings.hosts import accepted_hosts, host_header, host_name, is_loopback
from svir_proxy.settings.inspector import InspectorSettings
from svir_proxy.settings.metrics import MetricsSettings
from svir_proxy.settings.problems import several, suggest
from svir_proxy.settings.rules import RuleSettings
from svir_proxy.settings.tracing import TracingSettings

_ORIGIN: Final = re.compile(r"\*|[a-z][a-z0-9+.-]*://[^/?#\s]+")
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound
_ALIKE: Final = frozenset({"127.0.0.1", "localhost"})
_PORTS: Final = {"http": 80, "https": 443}


def _origin(value: str) -> str:
    if not _ORIGIN.fullmatch(value):
        raise ValueError("must be an origin such as http://localhost:3000, without a path, or *")
    return value


class ServerSettings(Section):
    """Where the proxy listens."""

    host: Annotated[str, AfterValidator(host_name)] = "127.0.0.1"
    """The address to bind. One that other machines reach (0.0.0.0) needs auth.keys."""
    port: int = Field(default=8484, ge=0, le=65535)
    """The port; 0 takes a free one, which the line "listening on" names."""
    workers: int = Field(default=1, ge=1, le=64)
    """Processes that serve. One is enough for hundreds of streams; what is learned is learned in each."""
    max_request_bytes: Bytes = 100 * 2**20
    """The largest request body; images are sent inline as base64."""
    max_connections: int = Field(default=4096, ge=1)
    """Connections of clients that are open at once, in each worker; one more gets 503 overloaded."""
    head_seconds: Seconds = 30.0
    """How long the head of a request may take to come."""
    body_seconds: Seconds = 60.0
    """How long a request's body may pause."""
    write_seconds: Seconds = 120.0
    """How long a client may take nothing of its answer before the connection is cut."""
    idle_seconds: Seconds = 75.0
    """How long a connection is kept between requests."""
    drain_seconds: int = Field(default=10, ge=0)
    """How long running answers may take to end after SIGTERM, whole seconds."""
    reload: bool = True
    """Whether a change of the configuration file, or of a file that it names, counts while the proxy runs. SIGHUP has
    it read in any case. host, port and workers need a restart."""
    allowed_hosts: list[Annotated[str, AfterValidator(host_header)]] = Field(default=[])
    """Names that a request's Host header may have, without port. Empty: on a loopback address only localhost,
    127.0.0.1, [::1] and the bound host, so that no web page reaches the proxy under a name of its own (DNS
    rebinding); elsewhere any."""
    cors_origins: list[Annotated[str, AfterValidator(_origin)]] = Field(default=[])
    """Web origins that may call the proxy from a browser; * is any."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the bound address."""
        return is_loopback(self.host)

    @property
    def accepted_hosts(self) -> frozenset[str] | None:
        """What the Host header may be, in lower case, without port, IPv6 in brackets; None: anything."""
        return accepted_hosts(self.host, self.allowed_hosts)

    def is_at(self, url: str) -> bool:
        """Whether *url* (of a backend) is the address that the proxy itself binds, as far as names tell."""
        parts = urlsplit(url)
        if (parts.port or _PORTS[parts.scheme]) != self.port:
            return False
        own = self.host.lower()
        names = {own} | (_ALIKE if own in _ALIKE else _ALIKE | {"::1"} if own in _EVERYWHERE else set())
        return parts.hostname in names


class StreamingSettings(Section):
    """How a stream to the client begins and stays alive."""

    commit_after: Seconds = 5.0
    """Seconds without output after which a stream begins all the same; before that a failure has an HTTP status."""
    keepalive: Seconds = 10.0
    """Seconds of silence after which a comment keeps a stream open."""


class LoggingSettings(Section):
    """What is logged, to stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is logged."""
    format: Literal["console", "json"] = "console"
    """For people, or one JSON object a line."""
    show_prompts: bool = False
    """Log requests and answers with their content. Keys are never logged."""


class RoutingSettings(Section):
    """What happens where several backends have a model: who is asked, and who is asked next."""

    keep_conversations: bool = True
    """Whether a conversation stays with one backend as long as that one answers: its prompt cache knows the beginning.
    Otherwise each request is for chance to decide. Both by the backends' weights."""
    failover_seconds: float = Field(default=60.0, ge=0)
    """How long after a request came another backend may be asked, where one fails before any output. 0: never."""
    breaker_failures: int = Field(default=5, ge=1)
    """Failures in a row of one model at one backend after which that backend is asked last."""
    breaker_seconds: Seconds = 30.0
    """For how long; then one request tries whether it answers again."""
    health_seconds: Seconds | None = None
    """Seconds between two reads of each backend's model list, by which the proxy learns that one is away, or back,
    before a request does. Not set: none are made."""


class LimitSettings(Section):
    """Bounds on what an upstream may make the proxy hold in memory."""

    max_event_bytes: Bytes = 32 * 2**20
    """The largest event of a stream."""
    max_answer_bytes: Bytes = 64 * 2**20
    """The largest answer that is no stream."""
    error_body_bytes: Bytes = 64 * 2**10
    """How much of an error's body is read."""
    error_body_seconds: Seconds = 2.0
    """How long an error's body is waited for: some servers stall it."""
    held_text_bytes: Bytes = 2**20
    """How much text is held back that could still be a tool call."""


class Settings(BaseSettings):
    """Everything that can be configured. `load_settings` reads it; made directly, it reads nothing."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix="SVIR_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    server: ServerSettings = ServerSettings()
    """Where the proxy listens."""
    auth: AuthSettings = Field(default=AuthSettings(), validate_default=True)
    """Who may use the proxy."""
    streaming: StreamingSettings = StreamingSettings()
    """How a stream to the client begins and stays alive."""
    logging: LoggingSettings = LoggingSettings()
    """What is logged."""
    tracing: TracingSettings = TracingSettings()
    """OpenTelemetry traces."""
    metrics: MetricsSettings = Field(default=MetricsSettings(), validate_default=True)
    """Where Prometheus reads what the proxy counts, and who may."""
    inspector: InspectorSettings = Field(default=InspectorSettings(), validate_default=True)
    """The page that shows what the proxy does."""
    routing: RoutingSettings = RoutingSettings()
    """What happens where several backends have a model."""
    rules: RuleSettings = RuleSettings()
    """What the operator says about answers and models."""
    limits: LimitSettings = LimitSettings()
    """Bounds on what an upstream may make the proxy hold in memory."""
    backends: list[Backend] = Field(default=[])
    """The model servers. None: those that run on this machine are looked for."""

    @property
    def has_metrics(self) -> bool:
        """Whether requests are counted, and the numbers can be read."""
        if self.metrics.enabled is None:
            return self.server.is_loopback or self.metrics.is_guarded
        return self.metrics.enabled

    @property
    def metrics_are_apart(self) -> bool:
        """Whether they are read at an address of their own; else, where there are any, beside the other routes."""
        return self.has_metrics and self.metrics.port is not None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is passed: `load_settings` lays the sources over each other itself, to know all that is wrong."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_unset(cls, data: Any) -> Any:
        return leave_out_unset(cls, data)

    @field_validator("auth")
    @classmethod
    def _open_only_on_this_machine(cls, auth: AuthSettings, info: ValidationInfo) -> AuthSettings:
        server = info.data.get("server")
        if isinstance(server, ServerSettings) and not server.is_loopback and not auth.hashed():
            text = (
                f"are missing, and other machines reach the bound address {server.host}; "
                "set auth.keys, or bind server.host to 127.0.0.1"
            )
            raise several([("keys", text)])
        return auth

    @field_validator("metrics")
    @classmethod
    def _nobody_else_reads(cls, metrics: MetricsSettings, info: ValidationInfo) -> MetricsSettings:
        server = info.data.get("server")
        if not isinstance(server, ServerSettings):
            return metrics
        if metrics.enabled and not metrics.is_guarded and not server.is_loopback:
            text = (
                f"is missing, and other machines reach the bound address {server.host}; "
                "set it (or key_file, or sha256), or metrics.port for a port of their own"
            )
            raise several([("key", text)])
        if metrics.port and metrics.port == server.port:
            text = "is the proxy's own port; choose another, or leave it out to have /metrics there"
            raise several([("port", text)])
        return metrics

    @field_validator("rules")
    @classmethod
    def _rules_are_for_keys_that_are_there(cls, rules: RuleSettings, info: ValidationInfo) -> RuleSettings:
        auth = info.data.get("auth")
        if isinstance(auth, AuthSettings):
            known = [name for name, _ in auth.hashed()] or ["none: auth.keys is empty"]
            unknown = [
                (f"answers[{i}].keys[{j}]", suggest(key, known))
                for i, rule in enumerate(rules.answers)
                for j, key in enumerate(rule.keys)
                if key not in known
            ]
            if unknown:
                raise several(unknown)
        return rules

    @field_validator("inspector")
    @classmethod
    def _inspector_is_guarded(cls, inspector: InspectorSettings, info: ValidationInfo) -> InspectorSettings:
        server, auth = info.data.get("server"), info.data.get("auth")
        if inspector.enabled and inspector.digest is None and isinstance(server, ServerSettings):
            if not server.is_loopback:
                why = f"and other machines reach the bound address {server.host}"
            elif isinstance(auth, AuthSettings) and auth.hashed():
                why = "and the proxy itself asks for one (auth.keys)"
            else:
                return inspector
            raise several([("key", f"is missing, {why}; set it (or key_file, or sha256), or leave enabled out")])
        return inspector

    @property
    def has_inspector(self) -> bool:
        """Whether there is the page: where it is asked for, has a key, or the whole proxy is open."""
        if self.inspector.enabled is not None:
            return self.inspector.enabled
        return self.inspector.digest is not None or (self.server.is_loopback and not self.auth.hashed())

    @field_validator("backends")
    @classmethod
    def _names_are_unique(cls, backends: list[Backend]) -> list[Backend]:
        if problems := repeated_names(backends):
            raise several(problems)
        return backends

    @field_validator("backends")
    @classmethod
    def _none_is_the_proxy(cls, backends: list[Backend], info: ValidationInfo) -> list[Backend]:
        server = info.data.get("server")
        text = "is this proxy itself, which would ask itself without end; name the model server's port"
        if isinstance(server, ServerSettings) and (
            own := [(f"[{i}].base_url", text) for i, backend in enumerate(backends) if server.is_at(backend.root)]
        ):
            raise several(own)
        return backends
