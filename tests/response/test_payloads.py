"""Payloads that a server put into one event."""

from __future__ import annotations

import pytest

from svir_proxy.response.payloads import DONE, read_payloads
from tests.support.work import peak

GLUED = {
    "without anything between": (b'{"a":1}{"b":2}', [{"a": 1}, {"b": 2}]),
    "on lines": (b'{"a":1}\n{"b":2}\n', [{"a": 1}, {"b": 2}]),
    "with data: between": (b'{"a":1}data: {"b":2}data:{"c":3}', [{"a": 1}, {"b": 2}, {"c": 3}]),
    "the end behind": (b'{"a":1}[DONE]', [{"a": 1}, DONE]),
    "the end on its line": (b'{"a":1}\n\n[DONE]\n', [{"a": 1}, DONE]),
    "a comment between": (b'{"a":1}\n: OPENROUTER PROCESSING\n{"b":2}', [{"a": 1}, {"b": 2}]),
    "a comment behind": (b'{"a":1} : keepalive', [{"a": 1}]),
    "seams in texts": (b'{"a":"x[0][1] }{ data: [DONE]"}{"b":2}', [{"a": "x[0][1] }{ data: [DONE]"}, {"b": 2}]),
    "one on several lines": (b'{"a":\n1}', [{"a": 1}]),
    "raw control characters": (b'{"a":"\t"}{"b":2}', [{"a": "\t"}, {"b": 2}]),
    "nothing": (b" \n: x", []),
}


@pytest.mark.parametrize(("data", "expected"), GLUED.values(), ids=GLUED)
def test_payloads(data, expected):
    assert read_payloads(data) == expected


@pytest.mark.parametrize(
    "data", [b'{"a":1}{"b"', b"ping", b'{"a":1} and more', b"[" * 100_000, b"{}" * 20_001], ids=len
)
def test_no_payloads(data):
    with pytest.raises(ValueError, match=r"."):
        read_payloads(data)


@pytest.mark.parametrize("seam", [b" ", b"data:", b":\n"])
def test_a_long_seam_takes_no_memory_of_its_own(seam):
    data = b"{}" + seam * 200_000 + b"{}"
    assert peak(read_payloads, [data]) < 2 * len(data)
