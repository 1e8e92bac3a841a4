"""Where Prometheus reads what the proxy counts, and who may."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from svir_proxy.settings.hosts import host_name
from svir_proxy.settings.own_key import OwnKey


class MetricsSettings(OwnKey):
    """``GET /metrics``: on the proxy's own address, or on one of its own where ``port`` is set."""

    enabled: bool | None = None
    """Whether there are any. Not set: where only this machine reaches the proxy, or where a key or a port is given."""
    host: Annotated[str, AfterValidator(host_name)] = "127.0.0.1"
    """The address to bind where a port is given."""
    port: int | None = Field(default=None, ge=0, le=65535)
    """A port for nothing but /metrics and /healthz; 0 takes a free one, which the line "metrics on" names. Then the
    proxy's own port has no /metrics."""

    @property
    def is_guarded(self) -> bool:
        """Whether it is told where, or to whom, the numbers are to be seen."""
        return self.port is not None or self.digest is not None
