"""Where traces of requests go."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from svir_proxy.settings.fields import Section
from svir_proxy.settings.headers import check_headers
from svir_proxy.settings.problems import several

_PATH: Final = "/v1/traces"
_PACKAGES: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
_MANAGED: Final = frozenset({"host", "connection", "content-length", "content-type", "content-encoding"})


def _endpoint(url: str) -> str:
    """The URL that spans are posted to. The text of an error never repeats it: it may carry a password."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("is no URL; write http://HOST:4318") from None
    if parts.scheme not in ("http", "https") or not host or any(char <= " " for char in url):
        raise ValueError("must be the URL of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("carries a password, a query or a fragment; put the collector's key under tracing.headers")
    return url if parts.path not in ("", "/") else f"{url.rstrip('/')}{_PATH}"


class TracingSettings(Section):
    """OpenTelemetry traces of requests. Needs the extra ``otel``; without traces nothing of it is loaded."""

    enabled: bool | None = None
    """Whether requests are traced. Not set: where an endpoint is. What is not set here is as the variables OTEL_* say;
    they alone do not switch traces on."""
    endpoint: Annotated[str, AfterValidator(_endpoint)] | None = None
    """The collector, which takes OTLP over HTTP; without a path /v1/traces is meant. Not set: as
    OTEL_EXPORTER_OTLP_ENDPOINT has it, else http://localhost:4318."""
    headers: dict[str, SecretStr] = Field(default={})
    """Headers sent to the collector, such as its key."""

    @field_validator("headers")
    @classmethod
    def _headers_can_be_sent(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        check_headers(headers, _MANAGED)
        return headers

    @model_validator(mode="after")
    def _packages_are_there(self) -> Self:
        if self.is_on and not _all_found(_PACKAGES):
            name = "enabled" if self.enabled else "endpoint"
            raise several([(name, "needs packages that are not installed; pip install 'svir-proxy[otel]'")])
        return self

    @property
    def is_on(self) -> bool:
        """Whether requests are traced."""
        return self.endpoint is not None if self.enabled is None else self.enabled


def _all_found(names: tuple[str, ...]) -> bool:
    try:
        return all(find_spec(name) is not None for name in names)
    except ModuleNotFoundError:  # what a package is in
        return False
