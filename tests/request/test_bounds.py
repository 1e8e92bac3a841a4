"""A client's body costs in proportion to its size, whatever in it is many.

Counted are comparisons of the body's texts: to search a list for each of its own items is quadratic, and 100 MB of body
would hold every other stream for hours.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any, Final

import pytest

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.profiles.loader import builtin_names, load_profile
from svir_proxy.request import rewrite_request
from tests.request.support import PLAIN, ask, call, function, profile, user

STRICT: Final = profile({"unknown_fields": "rejected", "consecutive_roles": "rejected", "late_system": "rejected"})
PROFILES: Final = [PLAIN, STRICT, *map(load_profile, builtin_names())]


class Counted(str):
    """A text of the body that counts what it is compared with."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def counted(value: Any) -> Any:
    """*value* with every text counted."""
    if isinstance(value, str):
        return Counted(value)
    if isinstance(value, dict):
        return {counted(key): counted(item) for key, item in value.items()}
    return [counted(item) for item in value] if isinstance(value, list) else value


def names(count: int) -> list[str]:
    return [f"name-{number}" for number in range(count)]


MANY: Final[dict[str, Callable[[int], dict[str, Any]]]] = {
    "fields": lambda count: ask(**dict.fromkeys(names(count), 1)),
    "nulls": lambda count: ask(**dict.fromkeys(names(count))),
    "leftovers of a message": lambda count: ask({**user(), **dict.fromkeys(names(count))}),
    "messages": lambda count: ask(*[user(name) for name in names(count)]),
    "system messages": lambda count: ask(*[{"role": "system", "content": name} for name in names(count)], user()),
    "parts": lambda count: ask(user([{"type": "text", "text": name} for name in names(count)])),
    "tools": lambda count: ask(tools=[function(name) for name in names(count)], tool_choice="required"),
    "a named one of many tools": lambda count: ask(
        tools=[function(name) for name in names(count)],
        tool_choice={"type": "function", "function": {"name": f"name-{count - 1}"}},
    ),
    "legacy functions": lambda count: ask(functions=[{"name": name} for name in names(count)], function_call="auto"),
    "calls and results": lambda count: ask(
        user(),
        {"role": "assistant", "content": None, "tool_calls": [call(identity=name) for name in names(count)]},
        *[{"role": "tool", "tool_call_id": name, "content": "1"} for name in names(count)],
    ),
    "calls that nobody answered": lambda count: ask(
        user(), *[{"role": "assistant", "tool_calls": [call(identity=name)]} for name in names(count)], user()
    ),
    "results that nobody called for": lambda count: ask(
        user(), *[{"role": "tool", "tool_call_id": name, "content": "1"} for name in names(count)]
    ),
    "one id again and again": lambda count: ask(
        *[{"role": "assistant", "tool_calls": [call()]} for _ in range(count)],
        *[{"role": "tool", "tool_call_id": "call_1", "content": "1"} for _ in range(count)],
    ),
    "properties": lambda count: ask(
        response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": {key: {} for key in names(count)}}}
    ),
    "stops": lambda count: ask(stop=names(count)),
}  # fmt: skip


def comparisons(make: Callable[[int], dict[str, Any]], count: int) -> int:
    """Over all profiles."""
    body = counted(make(count))
    Counted.compared = 0
    for served in PROFILES:
        try:
            rewrite_request(ClientRequest.from_body(body, id="r", received=1), served, "m")
        except ProxyError:
            continue
    return Counted.compared


@pytest.mark.parametrize("name", MANY)
def test_twice_as_many_are_twice_the_work(name: str) -> None:
    assert comparisons(MANY[name], 240) < 2.6 * comparisons(MANY[name], 120)


def test_what_clients_name_is_not_remembered() -> None:
    """A megabyte each, in fields that are left out and told: nothing of a request stays behind it."""

    def rewrite(number: int) -> None:
        body = ask(**{f"{number}" + "x" * (1 << 20): None, f"{number}" + "y" * (1 << 20): 1})
        rewrite_request(ClientRequest.from_body(body, id="r", received=1), STRICT, "m")

    rewrite(0)
    tracemalloc.start()
    try:
        for number in range(30):
            rewrite(number)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1 << 20
