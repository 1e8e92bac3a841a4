"""The headers that tell what is left, as OpenAI's clients read them."""

from __future__ import annotations

import pytest

from svir_proxy.server.quotas.bounds import Bound, Counted
from svir_proxy.server.quotas.rate_headers import RATE_HEADERS, rate_headers

NOON = 1796040000.0
RPM, TPM, RPD = Bound("requests", "minute", 10), Bound("tokens", "minute", 1000), Bound("requests", "day", 50)


@pytest.mark.parametrize(
    ("bounds", "counted", "taken", "told"),
    [
        ((RPM,), [Counted(3, 0)], True, {"limit-requests": "10", "remaining-requests": "6", "reset-requests": "1m45s"}),
        ((RPM,), [Counted(0, 0)], True, {"limit-requests": "10", "remaining-requests": "9", "reset-requests": "1m0s"}),
        # refused: it does not count itself
        ((RPM,), [Counted(10, 0)], False, {"limit-requests": "10", "remaining-requests": "0", "reset-requests": "1m54s"}),
        # tokens are not known yet; more than there were is none left
        ((TPM,), [Counted(0, 500)], True, {"limit-tokens": "1000", "remaining-tokens": "500", "reset-tokens": "1m0s"}),
        ((TPM,), [Counted(4000, 0)], False, {"limit-tokens": "1000", "remaining-tokens": "0", "reset-tokens": "2m0s"}),
        # of several for the same the one that ends first
        ((RPM, RPD), [Counted(0, 0), Counted(48, 0)], True,
         {"limit-requests": "50", "remaining-requests": "1", "reset-requests": "12h0m0s"}),
        ((RPM, TPM), [Counted(), Counted()], True,
         {"limit-requests": "10", "remaining-requests": "9", "reset-requests": "1m0s",
          "limit-tokens": "1000", "remaining-tokens": "1000", "reset-tokens": "0s"}),
        ((), [], True, {}),
    ],
)  # fmt: skip
def test_headers(bounds: tuple[Bound, ...], counted: list[Counted], *, taken: bool, told: dict[str, str]) -> None:
    windows = [bound.window(NOON) for bound in bounds]
    headers = dict(rate_headers(bounds, windows, counted, NOON, taken=taken))
    assert headers == {f"x-ratelimit-{name}".encode(): value.encode() for name, value in told.items()}
    assert {name.decode() for name in headers} <= set(RATE_HEADERS)
