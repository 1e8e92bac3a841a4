"""What is not wrong with a configuration, but surely not what its author believes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC

from svir_proxy.settings.model import Settings
from svir_proxy.settings.problems import Problem


def cautions(settings: Settings) -> Iterator[Problem]:
    """The path of a setting and a text, as for a problem."""
    auth, workers = settings.auth, settings.server.workers
    if workers > 1 and auth.has_limits and auth.store_url is None:
        text = (
            f"is not set, so each of the {workers} workers counts for itself, and a holder may have up to {workers}"
            " times its limits; set it to the URL of a Redis or Valkey server, or server.workers to 1"
        )
        yield "auth.store", text
    for index, key in enumerate(auth.keys):
        if key.expires is not None and key.expires.timestamp() <= time.time():
            over = key.expires.astimezone(UTC)
            yield f"auth.keys[{index}].expires", f"is past ({over:%Y-%m-%dT%H:%M:%SZ}), so the key is refused"
