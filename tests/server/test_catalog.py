"""Which backend has a model, how long a list counts, and that no server holds up another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.server.catalog import Catalog, Route
from svir_proxy.server.upstream import Upstream
from svir_proxy.settings import Backend, LimitSettings
from tests.server.conftest import Clock
from tests.server.support import listing
from tests.server.transport.raw_server import soon, until

pytestmark = pytest.mark.usefixtures("leaves_nothing")

REFUSED: Final = httpx.ConnectError("refused")


class Servers:
    """The model servers by name: a list, an error or a future of either; they count how often they are asked."""

    def __init__(self, **lists: Any) -> None:
        self.lists = lists
        self.asked: list[str] = []

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        name = request.url.host
        self.asked.append(name)
        answer = self.lists[name]
        if isinstance(answer, asyncio.Future):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)


@asynccontextmanager
async def catalog_of(
    servers: Servers,
    profile: str = "generic",
    models: Mapping[str, Mapping[str, str]] | None = None,
    priorities: Mapping[str, int] | None = None,
    health_seconds: float | None = None,
) -> AsyncIterator[Catalog]:
    """A backend for each of *servers*; *models*: their aliases."""
    network = httpx.MockTransport(servers)
    backends = [
        Backend.model_validate(
            {
                "name": n,
                "base_url": f"http://{n}",
                "profile": profile,
                "models": (models or {}).get(n, {}),
                "priority": (priorities or {}).get(n, 0),
            }
        )
        for n in servers.lists
    ]
    upstreams = [Upstream(backend, LimitSettings(), network) for backend in backends]
    catalog = Catalog(upstreams, None, health_seconds)
    yield catalog
    await soon(catalog.close())


async def routes(catalog: Catalog, model: str) -> list[tuple[str, str]]:
    """Backends and their ids, in order."""
    return [(found.upstream.name, found.model) for found in await soon(catalog.routes(model))]


async def route(catalog: Catalog, model: str) -> tuple[str, str, bool] | tuple[str, str]:
    """Backend, its id and whether it is listed; or the kind and the message of the error."""
    try:
        found: Route = await soon(catalog.route(model))
    except ProxyError as error:
        return error.kind, error.message
    return found.upstream.name, found.model, found.listed


LISTED: Final = {
    "data": [{"id": "qwen", "created": 5, "owned_by": "me"}, {"id": "/models/tiny.gguf"}, {"id": "nomic-embed"}]
}


@pytest.mark.parametrize(
    ("profile", "list_", "model", "expected"),
    [
        # whatever is named is answered: the list is not even asked for
        ("generic", LISTED, "qwen", ("a", "qwen", False)),
        ("generic", LISTED, "anything", ("a", "anything", False)),
        ("generic", REFUSED, "anything", ("a", "anything", False)),
        # a name that is not listed is the server's to refuse
        ("vllm", LISTED, "qwen", ("a", "qwen", True)),
        ("vllm", LISTED, "tiny.gguf", ("a", "/models/tiny.gguf", True)),
        ("vllm", LISTED, "/models/tiny.gguf", ("a", "/models/tiny.gguf", True)),
        ("vllm", LISTED, "nomic-embed", ("a", "nomic-embed", True)),
        ("vllm", LISTED, "anything", ("a", "anything", False)),
        ("vllm", REFUSED, "anything", ("a", "anything", False)),
        ("vllm", httpx.Response(404), "anything", ("a", "anything", False)),
        # naming a model loads it
        ("mlx-lm", LISTED, "tiny.gguf", ("a", "/models/tiny.gguf", True)),
        ("mlx-lm", LISTED, "", ("a", "", True)),
    ],
)
@pytest.mark.parametrize("again", [False, True])
async def test_a_backend_alone(profile: str, list_: Any, model: str, expected: tuple[str, str, bool], again) -> None:
    servers = Servers(a=list_)
    async with catalog_of(servers, profile) as catalog:
        assert await route(catalog, model) == expected
        if again:
            assert await route(catalog, model) == expected
        assert len(servers.asked) == (1 if profile != "generic" and model else 0)


@pytest.mark.parametrize("list_", [listing(), httpx.Response(200, content=b""), httpx.Response(200, content=b"<html>")])
async def test_a_name_that_would_be_loaded_has_to_be_known(list_: Any) -> None:
    async with catalog_of(Servers(a=list_), "mlx-lm") as catalog:
        kind, message = await route(catalog, "anything")
    assert kind == "model_not_found"
    assert "Name it under models" in message


@pytest.mark.parametrize(
    ("list_", "kind", "words"),
    [
        (LISTED, "model_not_found", "No backend has the model 'qwem'. Did you mean 'qwen'?"),
        (REFUSED, "upstream_unreachable", "'a' cannot be reached"),
        (httpx.Response(401), "upstream_auth_failed", "refused the proxy's key"),
    ],
)
async def test_a_server_that_loads_what_is_named_is_named_nothing_unknown(list_: Any, kind: str, words: str) -> None:
    async with catalog_of(Servers(a=list_), "mlx-lm") as catalog:
        for _ in range(2):
            told = await route(catalog, "qwem")
            assert told[0] == kind
            assert words in told[1]


async def test_aliases_come_first() -> None:
    servers = Servers(a=listing("fast", "big"), b=listing("x"))
    async with catalog_of(servers, models={"b": {"fast": "x-7b", "best": "y"}}) as catalog:
        assert await route(catalog, "fast") == ("b", "x-7b", True)
        assert await route(catalog, "best") == ("b", "y", True)
        assert servers.asked == []
        assert await route(catalog, "big") == ("a", "big", True)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("x", ("a", "x", True)),
        ("y", ("b", "y", True)),
        ("both", ("a", "both", True)),
        ("tiny.gguf", ("b", "/m/tiny.gguf", True)),
        (
            "gpt-4",
            ("model_not_found", "No backend has the model 'gpt-4'. Did you mean 'best' or 'x' or 'both'?"),
        ),
        ("bots", ("model_not_found", "No backend has the model 'bots'. Did you mean 'both' or 'best'?")),
        ("", ("model_not_found", "The request names no model, and more than one backend could be meant.")),
    ],
)
async def test_several_backends(model: str, expected: Any) -> None:
    servers = Servers(a=listing("x", "both"), b=listing("y", "both", "/m/tiny.gguf", "tiny-embed"))
    async with catalog_of(servers, models={"b": {"best": "y"}}) as catalog:
        assert await route(catalog, model) == expected


async def test_all_that_have_a_model_by_priority() -> None:
    servers = Servers(a=listing("x", "y"), b=listing("x", "fast"), c=listing("/m/x"))
    aliases = {"a": {"fast": "x"}, "c": {"fast": "z", "gpt-*": "z"}, "b": {"gpt-*": "*"}}
    async with catalog_of(servers, models=aliases, priorities={"a": 1}) as catalog:
        assert await routes(catalog, "fast") == [("c", "z"), ("a", "x")], "aliases hide what is in lists"
        assert await routes(catalog, "gpt-4") == [("b", "4"), ("c", "z")]
        assert servers.asked == []
        await catalog.states()
        assert await routes(catalog, "x") == [("b", "x"), ("c", "/m/x"), ("a", "x")]
        assert await routes(catalog, "y") == [("a", "y")]
        assert await route(catalog, "x") == ("b", "x", True)
        assert [entry["id"] for entry in await catalog.entries(everything=True)] == ["fast", "x", "y"]
        assert (await catalog.entry("gpt-5"))["owned_by"] == "b"


@pytest.mark.parametrize("servers", [["a"], ["a", "b"]])
async def test_a_star_alone_takes_what_no_list_has(servers: list[str], clock: Clock) -> None:
    lists = Servers(**{name: listing(f"in-{name}") for name in servers})
    async with catalog_of(lists, models={"a": {"*": "any"}}) as catalog:
        for _ in range(2):
            for model, expected in (("gpt-4", ("a", "any")), ("", ("a", "any")), (f"in-{servers[-1]}", None)):
                assert await routes(catalog, model) == [expected or (servers[-1], f"in-{servers[-1]}")]
        assert lists.asked == servers, "asked once, and waited for once"
        lists.lists = {name: asyncio.get_running_loop().create_future() for name in servers}
        clock.advance(11)
        assert await routes(catalog, "gpt-4") == [("a", "any")]
        assert await routes(catalog, "in-a") == [("a", "in-a")]
        await until(lambda: len(lists.asked) == 2 * len(servers))


async def test_a_server_that_was_not_there_is_found_when_it_is(clock: Clock) -> None:
    servers = Servers(a=listing("x"), b=REFUSED)
    async with catalog_of(servers) as catalog:
        assert await routes(catalog, "x") == [("a", "x")]
        servers.lists["b"] = listing("x")
        clock.advance(11)
        await routes(catalog, "x")
        await until(lambda: not catalog._refreshing)
        assert await routes(catalog, "x") == [("a", "x"), ("b", "x")]


@pytest.mark.parametrize(("health_seconds", "believed"), [(None, 10), (2, 10), (30, 60)])
async def test_who_is_away(health_seconds: float | None, believed: float, clock: Clock) -> None:
    servers = Servers(a=REFUSED, b=httpx.Response(503), c=httpx.Response(404), d=listing())
    aliases = {"a": {"fast": "x"}, "d": {"fast": "x"}}
    async with catalog_of(servers, models=aliases, health_seconds=health_seconds) as catalog:
        assert not any(catalog.is_away(upstream) for upstream in catalog.upstreams), "nothing is known yet"
        checked = [await soon(catalog.check(upstream)) for upstream in catalog.upstreams]
        assert [error and error.kind for error in checked] == [
            "upstream_unreachable",
            "upstream_unavailable",
            None,
            None,
        ]
        clock.advance(believed - 1)
        assert [catalog.is_away(upstream) for upstream in catalog.upstreams] == [True, True, False, False]
        assert await route(catalog, "fast") == ("d", "x", True), "the first that is there"
        clock.advance(2)
        assert not any(catalog.is_away(upstream) for upstream in catalog.upstreams), "too long ago"
        assert await route(catalog, "fast") == ("a", "x", True)
        await soon(catalog.check(catalog.upstreams[0]))
        servers.lists["a"] = listing()
        assert catalog.is_away(catalog.upstreams[0])
        assert await soon(catalog.check(catalog.upstreams[0])) is None
        assert not catalog.is_away(catalog.upstreams[0])


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("No such model.", "No such model. Did you mean 'qwen3' or 'qwen2'?"),
        ("no such model", "no such model. Did you mean 'qwen3' or 'qwen2'?"),
    ],
)
async def test_a_model_that_a_server_does_not_have_after_all(said: str, told: str) -> None:
    servers = Servers(a=listing("qwen", "qwen2", "qwen3"))
    async with catalog_of(servers) as catalog:
        error = ProxyError("model_not_found", said, param="model")
        assert catalog.gone("qwen", error) is error, "nothing is known"
        await catalog.states()
        assert catalog.gone("qwen", error) == ProxyError("model_not_found", told, param="model")
        await until(lambda: len(servers.asked) == 2)


async def test_no_backend_at_all() -> None:
    async with catalog_of(Servers()) as catalog:
        kind, words = (await route(catalog, "m"))[:2]
        assert kind == "upstream_unavailable"
        assert "none was found on this machine" in words
        assert (await catalog.entries(everything=False), await catalog.states()) == ([], {})


async def test_what_a_server_that_is_away_has_nobody_knows() -> None:
    async with catalog_of(Servers(a=listing("x"), b=REFUSED, c=httpx.Response(404))) as catalog:
        assert await route(catalog, "x") == ("a", "x", True)
        kind, words = (await route(catalog, "y"))[:2]
        assert kind == "upstream_unavailable", "the same request may succeed later"
        assert "'b' did not answer" in words


async def test_a_server_that_is_busy_holds_up_no_other(clock: Clock) -> None:
    busy: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    servers = Servers(a=listing("x"), b=busy)
    async with catalog_of(servers) as catalog:
        assert await route(catalog, "x") == ("a", "x", True), "found before the other answered"
        for _ in range(3):
            clock.advance(3)
            assert await route(catalog, "x") == ("a", "x", True)
        waiting = asyncio.create_task(catalog.route("y"))
        await until(lambda: servers.asked.count("b") == 1)
        assert not waiting.done()
        busy.set_result(listing("y"))
        assert (await soon(waiting)).upstream.name == "b"


async def test_a_list_is_asked_for_anew_when_it_is_old(clock: Clock) -> None:
    servers = Servers(a=listing("x"), b=listing("y"))
    async with catalog_of(servers) as catalog:
        assert await route(catalog, "y") == ("b", "y", True)
        assert sorted(servers.asked) == ["a", "b"]
        servers.lists = {"a": listing("y"), "b": listing("x")}
        clock.advance(9)
        assert await route(catalog, "y") == ("b", "y", True)
        clock.advance(2)
        assert await route(catalog, "y") == ("b", "y", True), "nobody waits for the new list"
        await until(lambda: len(servers.asked) == 4)
        await route(catalog, "x")
        assert await route(catalog, "y") == ("a", "y", True)


async def test_the_route_of_a_listed_name_is_made_once_for_each_list(clock: Clock) -> None:
    servers = Servers(a=listing("x"))
    async with catalog_of(servers, "vllm") as catalog:
        assert catalog.routes_at_hand("x") is None, "the list was not read yet"
        assert await route(catalog, "x") == ("a", "x", True)
        first = catalog.routes_at_hand("x")
        assert first == (Route(catalog.upstreams[0], "x"),)
        assert catalog.routes_at_hand("x") is first
        heir = Catalog(catalog.upstreams, catalog.known({"a"}))
        assert heir.routes_at_hand("x") == first
        clock.advance(11)
        assert catalog.routes_at_hand("x") is None, "the list is old"
        servers.lists["a"] = listing("y")
        await catalog.models(catalog.upstreams[0])
        for each in (catalog, heir):
            assert each.routes_at_hand("x") is None
            assert each.routes_at_hand("y") == (Route(catalog.upstreams[0], "y"),)


async def test_a_list_that_is_known_outlives_its_server(clock: Clock) -> None:
    servers = Servers(a=listing("x"), b=listing("y"))
    async with catalog_of(servers) as catalog:
        assert await route(catalog, "y") == ("b", "y", True)
        servers.lists["b"] = REFUSED
        for _ in range(3):
            clock.advance(11)
            assert await route(catalog, "y") == ("b", "y", True), "the error of the request itself says more"
            await until(lambda: not catalog._refreshing)
        assert [entry["id"] for entry in await catalog.entries(everything=True)] == ["x"], "but it is not listed"
        servers.lists["b"] = listing("y")
        clock.advance(11)
        assert [entry["id"] for entry in await catalog.entries(everything=True)] == ["x", "y"]


async def test_a_model_that_was_just_loaded_is_seen_soon(clock: Clock) -> None:
    servers = Servers(a=listing("x"), b=listing())
    async with catalog_of(servers) as catalog:
        assert (await route(catalog, "y"))[0] == "model_not_found"
        servers.lists["b"] = listing("y")
        assert (await route(catalog, "y"))[0] == "model_not_found"
        clock.advance(11)
        assert await route(catalog, "y") == ("b", "y", True)


async def test_many_that_ask_at_once_cost_one_request_and_one_that_leaves_spoils_nothing() -> None:
    gate: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    servers = Servers(a=gate)
    async with catalog_of(servers) as catalog:
        asking = [asyncio.create_task(catalog.entries(everything=True)) for _ in range(10)]
        await until(lambda: servers.asked == ["a"])
        asking[0].cancel()
        gate.set_result(listing("x"))
        found = await soon(asyncio.gather(*asking[1:]))
        assert [[entry["id"] for entry in entries] for entries in found] == [["x"]] * 9
        assert servers.asked == ["a"]


async def test_closing_ends_what_is_under_way() -> None:
    servers = Servers(a=asyncio.get_running_loop().create_future())
    async with catalog_of(servers) as catalog:
        asking = asyncio.create_task(catalog.states())
        await until(lambda: servers.asked == ["a"])
    with pytest.raises(asyncio.CancelledError):
        await soon(asking)


async def test_the_list() -> None:
    servers = Servers(a=LISTED, b=REFUSED)
    async with catalog_of(servers, models={"b": {"best": "z"}, "a": {"fast": "qwen"}}) as catalog:
        shown = await catalog.entries(everything=False)
        everything = await catalog.entries(everything=True)
    assert [entry["id"] for entry in shown] == ["fast", "best", "qwen", "tiny.gguf"]
    assert [entry["id"] for entry in everything] == ["fast", "best", "qwen", "tiny.gguf", "nomic-embed"]
    assert shown[2] == {"id": "qwen", "object": "model", "created": 5, "owned_by": "me"}
    assert (shown[1]["object"], shown[1]["owned_by"]) == ("model", "b")


async def test_no_list_is_an_error_unless_there_are_aliases() -> None:
    async with catalog_of(Servers(a=REFUSED, b=REFUSED)) as catalog:
        raised = []
        for _ in range(2):
            with pytest.raises(ProxyError) as caught:
                await catalog.entries(everything=False)
            raised.append(caught.value)
        assert raised[0].kind == "upstream_unreachable"
        assert raised[0] is not raised[1], "a cached exception would gather tracebacks"
    async with catalog_of(Servers(a=REFUSED), models={"a": {"fast": "x"}}) as catalog:
        assert [entry["id"] for entry in await catalog.entries(everything=False)] == ["fast"]


@pytest.mark.parametrize(
    ("model", "shown"),
    [("qwen", "qwen"), ("fast", "fast"), ("tiny.gguf", "tiny.gguf"), ("/models/tiny.gguf", "tiny.gguf")],
)
async def test_one_model(model: str, shown: str) -> None:
    async with catalog_of(Servers(a=LISTED), models={"a": {"fast": "qwen"}}) as catalog:
        assert (await catalog.entry(model))["id"] == shown


async def test_one_model_that_is_none() -> None:
    async with catalog_of(Servers(a=LISTED)) as catalog:
        with pytest.raises(ProxyError) as caught:
            await catalog.entry("qwen-2")
    assert caught.value.message == "No backend has the model 'qwen-2'. Did you mean 'qwen'?"


async def test_the_state_of_each_backend() -> None:
    async with catalog_of(Servers(a=LISTED, b=REFUSED, c=httpx.Response(401), d=httpx.Response(200))) as catalog:
        assert await catalog.states() == {
            "a": "ok",
            "b": "upstream_unreachable",
            "c": "upstream_auth_failed",
            "d": "ok",
        }


async def test_a_page_is_no_list() -> None:
    async with catalog_of(Servers(a=httpx.Response(200, content=b"<html>hello"))) as catalog:
        with pytest.raises(ProxyError) as caught:
            await catalog.entries(everything=False)
    assert caught.value.kind == "upstream_bad_response"
    assert "check its base_url" in caught.value.message


# ---------------------------------------------------------------- what is told of it


async def test_the_names_that_somebody_gave() -> None:
    servers = Servers(a=listing("x", "/m/tiny.gguf"), b=httpx.ConnectError("no"))
    async with catalog_of(servers, models={"a": {"fast": "x", "gpt-*": "x"}, "b": {"far": "z"}}) as catalog:
        assert [catalog.known_as(name) for name in ("fast", "x", "gpt-4", "made up", "")] == [
            "fast",
            None,
            "gpt-*",
            None,
            None,
        ], "its list was not read yet"
        await catalog.states()
        names = ("x", "tiny.gguf", "/m/tiny.gguf", "far", "z")
        assert [catalog.known_as(name) for name in names] == ["x", "tiny.gguf", "/m/tiny.gguf", "far", None]
        ids = [("a", "x"), ("a", "/m/tiny.gguf"), ("a", "tiny.gguf"), ("b", "z"), ("b", "x"), ("c", "x")]
        assert [catalog.has_id(*one) for one in ids] == [True, True, False, True, False, False]


async def test_other_words_for_a_model() -> None:
    models = {"a": {"fast": "/m/q", "slow": "/m/q", "x/*": "*"}, "b": {"fast": "z"}}
    async with catalog_of(Servers(a=listing("/m/q", "p"), b=listing("z")), models=models) as catalog:
        await catalog.states()
        words = {
            model: sorted({name for route in await catalog.routes(model) for name in catalog.names_of(model, route)})
            for model in ("fast", "q", "/m/q", "x//m/q", "p")
        }
    by_the_server = ["/m/q", "fast", "q", "slow", "x//m/q"]
    assert words == {
        "fast": ["/m/q", "q", "z"],
        "q": by_the_server,
        "/m/q": by_the_server,
        "x//m/q": ["/m/q", "q"],
        "p": ["p", "x/p"],
    }


async def test_who_answered_the_last_time() -> None:
    servers = Servers(a=listing("x"), b=httpx.ConnectError("no"), c=httpx.Response(404))
    async with catalog_of(servers) as catalog:
        assert catalog.answering() == {}
        await catalog.states()
        assert catalog.answering() == {"a": True, "b": False, "c": True}, "who has no list answers all the same"
