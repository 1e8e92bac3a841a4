"""The proxy as it is served, the scripted upstream, and the books on what they hold."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from svir_proxy.conform.judge import UPSTREAM_KEY, Seen
from tests.faults.client import Client
from tests.faults.upstream import Deaf, End, Exchange, Gone, HalfClose, Head, Reset, Send, Step, Taken, Upstream
from tests.faults.wire import GOOD, error
from tests.server.transport.raw_server import until
from tests.support.proxy import running_proxy

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

from svir_proxy.settings import Settings

SHORT: Final = 0.1
"""Seconds of a time limit that a stall is to run into. Only stalls are asked of a backend that has it."""
_LATER: Final = 0.5
"""The same where something must have come before the stall: longer than a busy machine holds a process up."""
_LONG: Final = 600

TIMEOUTS: Final[dict[str, dict[str, float]]] = {
    "patient": {"first_output": _LONG, "idle": _LONG},
    "first": {"first_output": SHORT, "idle": _LONG},
    "later": {"first_output": _LATER, "idle": _LONG},
    "idle": {"first_output": _LONG, "idle": SHORT},
}
"""Backends that are all the scripted upstream, and how long each may be silent."""
_TOO_LONG: Final = error("413 Content Too Large", "The prompt has too many words.")
_GREETINGS: Final[dict[str, tuple[Step, ...]]] = {
    "resets": (Reset(),),
    "closes": (End(),),
    "https to plain": (Send(b"HTTP/1.1 400 Bad Request\r\n\r\n"), End()),
    "https to silence": (Gone(),),
    "answers early": (Head(), Send(_TOO_LONG), Deaf()),
    "answers early and closes": (Head(), Send(_TOO_LONG), Taken(), End()),
    "answers early and well": (Head(), Send(GOOD[False]), Deaf()),
    "takes no more": (Head(), Deaf()),
    "resets within the request": (Head(), Reset()),
    "closes within the request": (Head(), End()),
    "half-closes within the request": (Head(), HalfClose()),
}
"""Upstreams that read no request, or no more of it than its head."""
_OTHERS: Final = {"https to silence": {"connect": SHORT}, "takes no more": {"first_output": SHORT}}
"""How long those may be silent; the rest as long as any backend."""


class Rig:
    """What a test of a fault stands on. `ask` sends a request; `left` says what was not given back."""

    def __init__(self, port: int, upstream: Upstream, others: dict[str, Upstream]) -> None:
        self.port = port
        self.upstream = upstream
        self.others = others
        self._names = itertools.count()
        self._fds = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def ask(self, client: Client, exchange: Exchange, model: str = "patient", **more: Any) -> Seen:
        """Play *exchange*: *model* is the backend, *more* are fields of the request, and ``words`` a prompt's length."""
        name = f"exchange {next(self._names)}"
        text = name + " word" * more.pop("words", 0)
        body = {"model": model, "messages": [{"role": "user", "content": text}], "stream": exchange.streamed, **more}
        if exchange.streamed:
            body["stream_options"] = {"include_usage": True}
        self.upstream.exchanges[name] = exchange
        try:
            seen = await client.ask(body, exchange)
            await until(lambda: not exchange.playing)
        finally:
            del self.upstream.exchanges[name]
        return seen

    async def ask_well(self, client: Client, *, streamed: bool) -> Seen:
        """A request that is answered without fault."""
        return await self.ask(client, Exchange([[Send(GOOD[streamed])]], streamed))

    def open_books(self) -> None:
        """What is held from now on must be given back."""
        self.upstream.accepted = 0
        self._tasks = asyncio.all_tasks()
        self._fds = _open_fds()

    def descriptors(self) -> int:
        """File descriptors that are open."""
        return _open_fds()

    async def left(self) -> list[str]:
        """What has not been given back once the clients are gone and the upstream has hung up; [] as it should be."""
        for upstream in (self.upstream, *self.others.values()):
            await upstream.hang_up()
        with contextlib.suppress(TimeoutError):
            await until(lambda: not self._left())
        return self._left()

    def _left(self) -> list[str]:
        others = set().union(*(upstream.tasks for upstream in (self.upstream, *self.others.values())))
        tasks = asyncio.all_tasks() - self._tasks - others
        left = [f"the task {task!r}" for task in tasks]
        if (fds := _open_fds()) > self._fds:
            left.append(f"{fds - self._fds} file descriptors")
        return left


@asynccontextmanager
async def rig(context: ssl.SSLContext | None = None, *, models: int = 100, **sections: Any) -> AsyncIterator[Rig]:
    """A proxy with the backends of `TIMEOUTS`, and with ones that fail before a request is read.

    *context*: what the TLS server shows; *models*: how many models a backend has beside the one of its name, called
    ``patient 0`` and so on, because what the proxy learns it learns of one model; *sections*: as in a settings file.
    """
    others = {name: Upstream(greeting) for name, greeting in _GREETINGS.items()}
    if context is not None:
        others["tls"] = Upstream(context=context)
    upstream = Upstream()
    async with contextlib.AsyncExitStack() as stack:
        for server in (upstream, *others.values()):
            await stack.enter_async_context(server)
        nobody = stack.enter_context(socket.socket())
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        urls = dict.fromkeys(TIMEOUTS, f"http://127.0.0.1:{upstream.port}")
        urls |= {name: f"http://127.0.0.1:{server.port}" for name, server in others.items()}
        urls |= {name: url.replace("http:", "https:") for name, url in urls.items() if name.startswith("https")}
        urls["refuses"] = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        urls["no such name"] = "http://no-such-host.invalid:8080"
        backends = [
            {
                "name": name.replace(" ", "-"),
                "base_url": url,
                "api_key": UPSTREAM_KEY,
                "models": {name: "m", **{f"{name} {number}": f"m{number}" for number in range(models)}},
                "timeouts": TIMEOUTS.get(name, _OTHERS.get(name, {})),
                "overrides": {"request": {"tool_choice": {"required": "ignored"}}},
                "verify_tls": False,
            }
            for name, url in urls.items()
        ]
        # Without metrics, which have a series for each of these models: what is left behind is to be seen.
        sections = {"auth": {"keys": []}, "metrics": {"enabled": False}, **sections}
        settings = Settings.model_validate({"backends": backends, **sections})
        url = await stack.enter_async_context(running_proxy(settings))
        port = urlsplit(url).port
        assert port is not None
        made = Rig(port, upstream, others)
        made.open_books()
        yield made


def _open_fds() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
