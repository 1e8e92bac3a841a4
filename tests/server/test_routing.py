"""The order in which backends are asked: priorities, shares, and that a conversation stays where it is."""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from typing import Any, Final

import pytest

from svir_proxy.client_request import ClientRequest
from svir_proxy.server.routing import conversation, in_order
from svir_proxy.settings import Backend

KEYS: Final = [number.to_bytes(4) for number in range(4000)]


def backends(*said: tuple[str, int, float]) -> list[Backend]:
    return [
        Backend(name=name, base_url="http://h", priority=priority, weight=weight) for name, priority, weight in said
    ]


def order(items: list[Backend], key: bytes | None) -> list[str]:
    return [backend.name for backend in in_order(items, lambda backend: backend, key)]


@pytest.mark.parametrize("key", [None, b"k"])
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([("a", 0, 1), ("b", 1, 9)], ["a", "b"]),
        ([("a", 5, 1), ("b", -1, 1), ("c", 0, 1)], ["b", "c", "a"]),
        ([("a", 0, 0), ("b", 0, 0.001)], ["b", "a"]),
        ([("a", 0, 0), ("b", 0, 0)], ["a", "b"]),
        ([("a", 1, 1), ("b", 0, 0)], ["b", "a"]),
    ],
)
def test_priorities_and_weights_of_nothing(said: Any, expected: list[str], key: bytes | None) -> None:
    assert order(backends(*said), key) == expected


@pytest.mark.parametrize("weights", [(1, 1), (3, 1), (1, 2, 5), (0.5, 0.25, 0.25)])
@pytest.mark.parametrize("by", ["conversation", "chance"])
def test_shares_are_those_of_the_weights(weights: tuple[float, ...], by: str) -> None:
    random.seed(7)
    items = backends(*((f"b{number}", 0, weight) for number, weight in enumerate(weights)))
    first = Counter(order(items, key if by == "conversation" else None)[0] for key in KEYS)
    for number, weight in enumerate(weights):
        assert abs(first[f"b{number}"] / len(KEYS) - weight / sum(weights)) < 0.03


def test_of_a_backend_that_is_gone_only_its_own_conversations_move_and_to_all_the_others() -> None:
    items = backends(("a", 0, 1), ("b", 0, 1), ("c", 0, 2))
    moved = Counter[str]()
    for key in KEYS:
        before = order(items, key)
        after = order(items[1:], key)
        assert after == [name for name in before if name != "a"]
        if before[0] == "a":
            moved[after[0]] += 1
    assert 0.2 < moved["b"] / moved.total() < 0.5 < moved["c"] / moved.total()


def test_the_order_does_not_depend_on_that_of_the_configuration() -> None:
    items = backends(("a", 0, 1), ("b", 0, 1), ("c", 0, 1))
    for key in KEYS[:50]:
        assert order(items, key) == order(items[::-1], key)


# ---------------------------------------------------------------- what a conversation is

USER: Final = {"role": "user", "content": "hi"}
SYSTEM: Final = {"role": "system", "content": "be short"}
REPLY: Final = {"role": "assistant", "content": "hello"}
PNG: Final = "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 200).decode()
OTHER_PNG: Final = "data:image/png;base64," + base64.b64encode(bytes(range(255, -1, -1)) * 200).decode()


def key_of(*messages: Any, **more: Any) -> bytes:
    raw = json.dumps({"model": "m", "messages": messages, **more}).encode()
    return conversation(ClientRequest.from_json(raw, id="r", received=1))


def seen(url: str, text: str = "what is it?") -> dict[str, Any]:
    return {
        "role": "user",
        "content": [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}],
    }


@pytest.mark.parametrize(
    ("one", "another", "same"),
    [
        ([SYSTEM, USER], [SYSTEM, USER, REPLY, {"role": "user", "content": "more"}], True),
        ([SYSTEM, USER], [SYSTEM, {"role": "user", "content": "hi!"}], False),
        ([SYSTEM, USER], [USER], False),
        (
            [SYSTEM, {"role": "user", "content": "a" * 100_000}],
            [SYSTEM, {"role": "user", "content": "a" * 99_999}],
            False,
        ),
        ([seen(PNG)], [seen(PNG), REPLY, seen(OTHER_PNG, "and this?")], True),
        ([seen("http://h/a.png")], [seen("http://h/a.png"), REPLY, seen(PNG)], True),
        ([seen(PNG)], [seen(OTHER_PNG)], False),
        ([seen(PNG)], [seen(PNG, "who is it?")], False),
        ([{"role": "user", "content": None}], [{"role": "user"}], True),
        ([{"content": 5}], [{"role": "user", "content": "\ud800"}], False),
    ],
)
def test_a_conversation_is_told_by_how_it_begins(one: list[Any], another: list[Any], *, same: bool) -> None:
    assert (key_of(*one) == key_of(*another)) is same


def test_the_clients_own_key_and_the_model() -> None:
    assert key_of(USER, prompt_cache_key="k") == key_of(SYSTEM, USER, prompt_cache_key="k")
    assert key_of(USER, prompt_cache_key="k") != key_of(USER, prompt_cache_key="l")
    for none in ("", None, 5):
        assert key_of(USER, prompt_cache_key=none) == key_of(USER)
    assert key_of(USER) != key_of(USER, model="n")


def test_no_content_is_too_deep() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    request = ClientRequest.from_body({"messages": [{"role": "user", "content": [deep]}]}, id="r", received=1)
    assert len(conversation(request)) == 16
