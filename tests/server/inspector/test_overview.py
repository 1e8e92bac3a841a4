"""What the page says of backends, models and keys, as they are at this moment."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import httpx

from svir_proxy.server.breaker import Breakers
from svir_proxy.server.catalog import Catalog
from svir_proxy.server.inspector.overview import Overview
from svir_proxy.server.learned import Learned
from svir_proxy.server.quotas.access import Access
from svir_proxy.server.quotas.tokens import Meter
from svir_proxy.server.request_record import RequestRecord
from svir_proxy.server.upstream import Upstream
from svir_proxy.settings import Settings
from tests.server.support import listing

SETTINGS = Settings.model_validate({
    "auth": {"keys": [{
        "name": "app", "key": "sk-of-the-app", "models": ["f*"], "expires": "2099-12-31",
        "limits": {"requests_per_day": 9, "concurrent_requests": 2},
    }]},
    "backends": [
        {
            "name": "a", "base_url": "http://a.test:1", "profile": "vllm", "api_key": "sk-of-a",
            "models": {"fast": "x", "gpt-*": "x"}, "max_requests": 2, "headers": {"x-token": "sk-in-a-header"},
        },
        {"name": "b", "base_url": "http://b.test:2", "profile": "llama-cpp"},
    ],
})  # fmt: skip


def answer(request: httpx.Request) -> httpx.Response:
    if request.url.host == "b.test":
        raise httpx.ConnectError("refused")
    return httpx.Response(200, json=listing("x", "y"))


async def test_everything_is_told_and_no_secret() -> None:
    upstreams = [Upstream(backend, SETTINGS.limits, httpx.MockTransport(answer)) for backend in SETTINGS.backends]
    catalog, learned, breakers = Catalog(upstreams), Learned(), Breakers(1, 1000.0)
    counts: Counter[tuple[str, str, str]] = Counter({("key", "app", "requests"): 3, ("backend", "a", "tokens_out"): 7})
    access = Access.of(SETTINGS.auth, None)
    assert access is not None
    record = RequestRecord("r", "POST", "/v1/chat/completions", key="app")
    serving: Any = SimpleNamespace(
        settings=SETTINGS, catalog=catalog, breakers=breakers, learned=learned, access=access, live={record}
    )
    overview = Overview(serving, counts)
    await access.admit(record, [], Meter)
    before = overview()
    assert [backend["list"]["state"] for backend in before["backends"]] == ["unknown", "unknown"]

    await catalog.states()
    breakers.failed(("a", "x"), 0.0, retry_after=60)
    learned.learn("a", "x", {"request.optional_fields.seed": "rejected"})
    places = upstreams[0].places
    assert places is not None
    async with places:
        told: dict[str, Any] = overview()
    a, b = told["backends"]
    assert (a["list"]["state"], a["away"], a["models"], a["places"]) == ("ok", False, 2, [1, 2, 0])
    assert set(a["breakers"]) == {"x"}
    assert a["learned"] == [{"model": "x", "fact": "request.optional_fields.seed", "value": "rejected"}]
    assert (a["tokens_out"], b["tokens_out"]) == (7, 0)
    assert (b["list"]["state"], b["away"], b["places"], b["breakers"]) == ("upstream_unreachable", True, None, {})
    assert [(model["name"], model["alias"], model["backends"]) for model in told["models"]] == [
        ("fast", True, [["a", "x"]]),
        ("x", False, [["a", "x"]]),
        ("y", False, [["a", "y"]]),
    ]
    [key] = told["keys"]
    assert (key["name"], key["requests"], key["models"], key["expires"]) == (
        "app",
        3,
        ("f*",),
        "2099-12-31 23:59",
    )
    assert key["limits"] == [("requests_per_day", 0, 9)]  # as its last request found it
    assert key["running"] == [1, 2]
    assert told["store"] == "in the memory of this worker"
    assert "sk-" not in str(told)
    await catalog.close()
    await access.close()


async def test_an_open_proxy_has_no_keys_but_may_have_limits() -> None:
    for auth, names in (({}, []), ({"limits": {"requests_per_minute": 5}}, [None])):
        configured = Settings.model_validate({"auth": auth})
        access = Access.of(configured.auth, None)
        nothing: dict[str, Any] = {
            "catalog": Catalog([]),
            "breakers": Breakers(1, 1.0),
            "learned": Learned(),
            "live": set(),
        }
        serving: Any = SimpleNamespace(settings=configured, access=access, **nothing)
        assert [key["name"] for key in Overview(serving, Counter())()["keys"]] == names
        if access is not None:
            await access.close()
