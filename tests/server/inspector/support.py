"""A browser's view of the inspector, without the browser: the feed, put together as the page does it."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from svir_proxy.server.inspector import PATH
from tests.server.support import Client, Proxied
from tests.server.transport.raw_server import soon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

EVENTS: Final = f"{PATH}/events"


class Viewer:
    """What one page knows."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._rest = ""
        self.text = ""
        """All that came."""
        self.hello: dict[str, Any] = {}
        self.state: dict[str, Any] = {}
        self.is_ready = False
        self.requests: dict[int, dict[str, Any]] = {}
        """By number, as told; changes, rows and the client's lines as they were told first."""

    @classmethod
    async def connect(cls, client: Client, **headers: str) -> Self:
        """The page, once it has all that was kept."""
        await client.ask(b"", EVENTS, "GET", **headers)
        assert await client.status() == 200
        viewer = cls(client)
        await viewer.until(lambda: viewer.is_ready)
        return viewer

    async def until(self, condition: Callable[[], bool]) -> None:
        """Read on until *condition* holds."""
        while not condition():
            piece = (await self._client.piece()).decode()
            assert piece, "the feed has ended"
            self.text += piece
            *events, self._rest = (self._rest + piece).split("\n\n")
            for event in events:
                self._take(event)

    async def over(self, number: int) -> dict[str, Any]:
        """The request of this *number*, once it is over."""
        await self.until(lambda: number in self.requests and self.requests[number]["summary"]["over"])
        return self.requests[number]

    async def end(self) -> None:
        """Read until the feed ends, as it should."""
        while await self._client.piece():
            pass

    def _take(self, event: str) -> None:
        fields = dict(line.split(": ", 1) for line in event.split("\n") if not line.startswith(":"))
        if "event" not in fields:
            return
        data = json.loads(fields["data"])
        match fields["event"]:
            case "hello":
                self.hello, self.requests, self.is_ready = data, {}, False
            case "state":
                self.state = data
            case "ready":
                self.is_ready = True
            case "request":
                known = self.requests.setdefault(data["summary"]["n"], {"rows": [], "changes": {}, "client": None})
                rows = [*known["rows"], *(row for row in data["rows"] if row not in known["rows"])]
                changes = known["changes"] | data["changes"]
                self.requests[data["summary"]["n"]] = data | {
                    "rows": rows, "changes": changes, "client": data["client"] or known["client"],
                }  # fmt: skip


@asynccontextmanager
async def viewing(proxy: Proxied, **headers: str) -> AsyncIterator[Viewer]:
    """A page that looks on."""
    async with proxy.client() as client:
        yield await soon(Viewer.connect(client, **headers))
