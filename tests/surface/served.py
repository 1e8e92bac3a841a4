"""A proxy in front of a server that answers whatever it is asked."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from svir_proxy.conform.upstream import Answer, ScriptedUpstream, json_answer
from tests.faults.wire import DOCUMENT
from tests.support.proxy import running_proxy, settings_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class _AnyModel(dict[str, Answer]):
    def get(self, key: str, default: Any = None) -> Answer:
        del key, default
        return Answer(headers={"content-type": "application/json"}, pieces=[DOCUMENT])


@asynccontextmanager
async def served(**sections: Any) -> AsyncIterator[str]:
    """The proxy's base URL, without ``/v1``. *sections*: as in a settings file."""
    listed = [{"id": name, "object": "model", "created": 1, "owned_by": "a"} for name in ("m", "org/m2")]
    async with (
        ScriptedUpstream(_AnyModel(), json_answer({"object": "list", "data": listed})) as upstream,
        running_proxy(settings_for(upstream.base_url, **sections)) as url,
    ):
        yield url
