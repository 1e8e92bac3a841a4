"""Who is taken for the proxy's own listener: its methods themselves, and nothing that stands in front of them."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import pytest

from svir_proxy.listener.cycle import Cycle
from svir_proxy.server.own_listener import Listener, listener_of
from tests.server.support import Wire


def test_the_listener_has_what_is_asked_of_it() -> None:
    for name, wanted in inspect.getmembers(Listener, inspect.isfunction):
        if not name.startswith("_"):
            assert list(inspect.signature(getattr(Cycle, name)).parameters) == list(
                inspect.signature(wanted).parameters
            )


def test_it_is_found_behind_its_own_methods() -> None:
    wire = Wire()
    assert listener_of(wire.send) is listener_of(wire.receive) is wire


class Other:
    async def send(self, message: Any) -> None: ...


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(Other().send, id="another server"),
        pytest.param(partial(Wire().send), id="a partial"),
        pytest.param(lambda message: Wire().send(message), id="a function"),
        pytest.param(Other.send, id="no method of anything"),
    ],
)
def test_whatever_stands_in_front_of_it_is_somebody_else(call: Any) -> None:
    assert listener_of(call) is None
