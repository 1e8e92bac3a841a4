"""The model under the server's own name."""

from __future__ import annotations

import pytest

from tests.request.support import PLAIN, ask, differences, rewrite


@pytest.mark.parametrize(
    ("sent", "served", "becomes", "notes"),
    [
        ("m", "m", {}, ()),
        ("m", "org/model-7b", {"model": "org/model-7b"}, ("model=alias",)),
        ("m", "", {}, ()),
        ("", "served", {"model": "served"}, ("model=added",)),
    ],
)
def test_the_name(sent: str, served: str, becomes: dict[str, str], notes: tuple[str, ...]) -> None:
    body = {**ask(), "model": sent}
    result = rewrite(body, PLAIN, served)
    assert (differences(body, result.body), result.notes) == (becomes, notes)


def test_a_request_that_names_none() -> None:
    body = ask()
    del body["model"]
    assert rewrite(body, PLAIN, "served").body == {**body, "model": "served"}
