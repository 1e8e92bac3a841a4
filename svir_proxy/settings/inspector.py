"""The page that shows what the proxy does, and who may see it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from svir_proxy.settings.fields import Bytes
from svir_proxy.settings.own_key import OwnKey


class InspectorSettings(OwnKey):
    """``/svir/inspector`` on the proxy's own address. The clients' keys do not open it."""

    enabled: bool | None = None
    """Whether there is the page. Not set: where the proxy is open, which it is to this machine only, or where there is
    a key of its own."""
    show_prompts: bool = False
    """Show what people and models wrote, too. Otherwise structure, sizes and times only, and nothing else is kept."""
    record: Literal["watched", "always"] = "watched"
    """When the content of requests is written down: while somebody looks at the page, or always."""
    requests: int = Field(default=100, ge=1, le=10_000)
    """The latest requests that are kept, in memory."""
    max_bytes: Bytes = 16 * 2**20
    """What their content may take of the memory of each worker; the oldest lose theirs first."""

    @property
    def secret(self) -> SecretStr | None:
        """The key itself, where the configuration has it."""
        return self.key_file.secret if self.key_file is not None else self.key
