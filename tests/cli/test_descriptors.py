"""Open files: the limit is raised as far as it goes, and clients are let in as there is room."""

from __future__ import annotations

import logging
import resource

import pytest

from svir_proxy.cli.descriptors import make_room, share_out

INFINITY = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "refused", "then"),
    [
        ((1024, 1024), False, (1024, (320, 320))),
        ((1024, 20_000), False, (20_000, (4096, 11_744))),
        ((256, INFINITY), False, (65_536, (4096, 57_280))),
        ((256, INFINITY), True, (256, (64, 64))),
        ((100_000, 1_000_000), False, (100_000, (4096, 91_744))),
        ((INFINITY, INFINITY), False, (INFINITY, (4096, 57_280))),
        ((32, 32), False, (32, (1, 1))),
    ],
)
def test_room(
    limits: tuple[int, int],
    refused: bool,
    then: tuple[int, tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    held, (after, room) = [limits], then

    def set_limit(_: int, value: tuple[int, int]) -> None:
        if refused:
            raise ValueError("not allowed to raise maximum limit")
        held[0] = value

    monkeypatch.setattr(resource, "getrlimit", lambda _: held[0])
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    with caplog.at_level(logging.WARNING):
        make_room(4096)
    assert held == [(after, limits[1])]
    assert share_out(4096) == room
    assert [f"it is {room[0]}" in line for line in caplog.messages] == [True] * (room[0] < 4096)
