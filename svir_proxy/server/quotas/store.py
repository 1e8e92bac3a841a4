"""Counting in a Redis or Valkey server, for all workers and replicas that have the same.

A request takes one round trip when it comes, and one that nobody waits for when it is over; what has to happen as a
whole is a script (`admit.lua`, `settle.lua`), since the library's strategies take one limit at a time, each a round
trip, and count in the first what the second refuses. No connection is held while an answer runs: that a request runs
is a lease, which is renewed while it does, and ends by itself where the process is no more.

Windows are told by this machine's clock, which those of the other replicas have to agree with, as NTP sees to; leases
by the server's.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import files
from math import inf
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from limits.aio.storage import RedisStorage
from redis.asyncio import BlockingConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from svir_proxy.server.quotas.background import Background
from svir_proxy.server.quotas.bounds import Counted
from svir_proxy.server.quotas.counters import Demand, StoreDown, Verdict

T = TypeVar("T")

_LOGGER: Final = logging.getLogger("svir_proxy")
_PREFIX: Final = "svir"
_CONNECTIONS: Final = 16
"""Connections at most; each is held for one round trip. More requests wait in line for them."""
_LATE: Final = 0.1
"""Seconds by which a timer of a loop that turns is not late."""
_LEASE: Final = 60.0
"""Seconds after which a request of a process that is no more does not count as running."""
_RENEW: Final = 20.0
"""Seconds between two renewals of the leases that are held."""
_PING: Final = 1.0
"""Seconds between two looks whether a store that is down is back."""
_MISSED: Final = 1000
"""Requests whose tokens are kept until the store is back; of more the first are lost."""
_LONGEST: Final = 200
"""Characters of what is said of a failure."""


class StoreCounters:
    """Counters in the store at *url*. *seconds*: how long one round trip may take, connecting included.

    The first failure tells that the store is down: from then on nobody is made to wait for it, until it answers a ping.
    """

    is_shared: Final = True

    def __init__(self, url: str, seconds: float) -> None:
        parts = urlsplit(url)
        self._secret = parts.password or ""
        self._at = f"{parts.hostname}:{parts.port or 6379}"
        self._seconds = seconds
        pool: Any = BlockingConnectionPool.from_url(
            url,
            max_connections=_CONNECTIONS + 1,  # one to look whether it is back
            # Once more over a new connection: a store that was started anew has closed those that wait.
            retry=Retry(NoBackoff(), 1, (RedisConnectionError,)),
            socket_connect_timeout=seconds,
            socket_timeout=seconds,
        )
        self._pool = pool
        storage: Any = RedisStorage(f"async+{url}", implementation="redispy", key_prefix=_PREFIX, connection_pool=pool)
        self._key: Callable[[str], str] = storage.bridge.prefixed_key
        self._client = storage.bridge.get_connection()
        self._admit, self._settle, self._renew = (
            self._client.register_script(files(__package__).joinpath(f"{name}.lua").read_text("utf-8"))
            for name in ("admit", "settle", "renew")
        )
        self._line = asyncio.Semaphore(_CONNECTIONS)
        self._background = Background()
        self._leases: dict[str, set[str]] = {}
        """Those that this process holds, by account."""
        self._missed: deque[tuple[list[str], list[Any]]] = deque(maxlen=_MISSED)
        """Tokens that could not be counted yet: the keys and values of `settle.lua`."""
        self._renewing: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._back_at = -inf  # when it came back the last time (time of the loop)
        self.is_down = False
        """Whether nothing can be counted now."""
        self._background.start(self._begin())

    async def admit(self, demand: Demand, now: float) -> Verdict:
        """As `Counters.admit`."""
        if self.is_down:
            raise StoreDown
        windows = demand.windows(now)
        keys = [
            self._counter(demand, bound.setting, name)
            for bound, window in zip(demand.bounds, windows, strict=True)
            for name in (window.current, window.previous)
        ]
        values: list[Any] = [len(demand.bounds)]
        for bound, window in zip(demand.bounds, windows, strict=True):
            values += (bound.amount, repr(window.weight), bound.cost, bound.kept)
        values += (-1 if demand.at_once is None else demand.at_once, demand.lease, int(_LEASE * 1000))
        try:
            taken, running, said = await self._ask(lambda: self._admit([*keys, self._running(demand.account)], values))
        except BaseException:
            # Nobody knows whether it was counted, but it does not run.
            if demand.at_once is not None:
                self._background.start(self._release(demand, 0, now))
            raise
        if taken and demand.at_once is not None:
            self._hold(demand)
        return Verdict(bool(taken), running, tuple(map(Counted, said[::2], said[1::2])))

    def settle(self, demand: Demand, tokens: int, now: float) -> None:
        """As `Counters.settle`."""
        if (held := self._leases.get(demand.account)) is not None:
            held.discard(demand.lease)
            if not held:
                del self._leases[demand.account]
        if demand.at_once is not None or (tokens and any(bound.unit == "tokens" for bound in demand.bounds)):
            self._background.start(self._release(demand, tokens, now))

    async def close(self) -> None:
        """As `Counters.close`."""
        await self._background.finish()
        tasks = [task for task in (self._renewing, self._watching) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.aclose()
        await self._pool.disconnect()

    async def _begin(self) -> None:
        """Look whether the store is there, before the first request has to."""
        try:
            await self._ask(self._probe)
        except StoreDown:
            return

    async def _release(self, demand: Demand, tokens: int, now: float) -> None:
        charged = [bound for bound in demand.bounds if bound.unit == "tokens"] if tokens else []
        keys = [self._counter(demand, bound.setting, bound.window(now).current) for bound in charged]
        keys.append(self._running(demand.account))
        await self._charge(keys, [tokens, demand.lease, *(bound.kept for bound in charged)])

    async def _charge(self, keys: list[str], values: list[Any]) -> None:
        try:
            await self._ask(lambda: self._settle(keys, values))
        except StoreDown:
            if len(keys) > 1:  # tokens; what ran does no more, and its lease ends by itself
                self._missed.append((keys, values))

    def _hold(self, demand: Demand) -> None:
        self._leases.setdefault(demand.account, set()).add(demand.lease)
        if self._renewing is None:
            self._renewing = asyncio.get_running_loop().create_task(self._keep())

    async def _keep(self) -> None:
        """Renew the leases that are held, as long as there are any."""
        while True:
            await asyncio.sleep(_RENEW)
            if not self._leases:
                self._renewing = None
                return
            for account, leases in tuple(self._leases.items()):
                await self._prolong(account, tuple(leases))

    async def _prolong(self, account: str, leases: Sequence[str]) -> None:
        try:
            await self._ask(lambda: self._renew([self._running(account)], [int(_LEASE * 1000), *leases]))
        except StoreDown:
            return

    async def _ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """What the store answers; raises StoreDown."""
        async with self._line:
            # Who waited here has not waited for the store: the time begins now, and a store that was lost meanwhile is.
            if self.is_down:
                raise StoreDown
            try:
                return await self._in_time(question)
            except TimeoutError:
                self._lose(f"no answer within {self._seconds:g} s (auth.store_seconds)")
            except (RedisError, OSError) as exc:
                self._lose(str(exc) or type(exc).__name__)
            raise StoreDown

    async def _in_time(self, question: Callable[[], Awaitable[T]]) -> T:
        """What the store answers; raises TimeoutError where it is the store that is late."""
        time = asyncio.get_running_loop().time
        until = time() + self._seconds
        try:
            async with asyncio.timeout_at(until):
                return await question()
        except TimeoutError:
            if time() - until < _LATE:
                raise
        # This process stood still: the answer may have been there, and who looks for it late finds the end of its time.
        async with asyncio.timeout(self._seconds):
            return await question()

    def _lose(self, reason: str) -> None:
        if self.is_down:
            return
        self.is_down = True
        if self._secret:
            reason = reason.replace(self._secret, "***")
        _LOGGER.error(
            "the store at %s, which the limits are counted in, is down: %s; until it answers, auth.store_down decides",
            self._at,
            reason[:_LONGEST],
        )
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _probe(self) -> None:
        """Write something: a store can answer, and take nothing (full, a replica, without the right)."""
        await self._client.set(self._key("probe"), 1, ex=60)

    async def _watch(self) -> None:
        """Look whether the store is back, until it is: at once, unless it was so a moment ago and failed again."""
        time = asyncio.get_running_loop().time
        if time() - self._back_at < _PING:
            await asyncio.sleep(_PING)
        while True:
            try:
                await self._in_time(self._probe)
            except (TimeoutError, RedisError, OSError):
                await asyncio.sleep(_PING)
            else:
                break
        self.is_down, self._watching, self._back_at = False, None, time()
        while self._missed:
            self._background.start(self._charge(*self._missed.popleft()))
        _LOGGER.warning("the store at %s answers again: requests are counted", self._at)

    def _counter(self, demand: Demand, setting: str, window: str) -> str:
        # In braces: a cluster keeps what a script touches in one place.
        return self._key(f"{{{demand.account}}}/{setting}/{window}")

    def _running(self, account: str) -> str:
        return self._key(f"{{{account}}}/running")
