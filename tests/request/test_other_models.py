"""Models that a request names beside its model."""

from __future__ import annotations

from typing import Any

import pytest

from svir_proxy.request.other_models import names_others, other_models


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"model": "a"}, []),
        ({"model": "a", "models": ["b", "c"]}, ["b", "c"]),
        ({"model": "a", "fallbacks": ["b"]}, ["b"]),
        ({"model": "a", "fallbacks": [{"model": "b", "messages": []}]}, ["b"]),
        ({"model": "a", "context_window_fallbacks": [{"a": ["b"]}]}, ["{'a': ['b']}"]),
        ({"model": "a", "content_policy_fallbacks": "b"}, ["b"]),
        ({"model": "a", "fallbacks": {"model": "b"}}, ["b"]),
        ({"model": "a", "fallbacks": [None, 1, ["b"]]}, ["None", "1", "['b']"]),
        ({"model": "a", "fallbacks": None}, []),
        ({"model": "a", "models": [], "fallbacks": ["b"]}, ["b"]),
    ],
)
def test_they_are_found_however_they_are_written(body: dict[str, Any], names: list[str]) -> None:
    assert list(other_models(body)) == names
    assert names_others(body) == (len(body) > 1)
