"""JSON that would be many times its size as objects is refused before it is."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Final

import pytest

from svir_proxy.bulk import MOST_VALUES, has_too_many_values
from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.expectation import Expectation, unfenced
from svir_proxy.profiles.loader import load_profile
from svir_proxy.response.events import Failed
from svir_proxy.response.json_text import loads, loads_leniently
from svir_proxy.response.normalizer import StreamNormalizer
from svir_proxy.response.payloads import read_payloads

LISTS: Final = b"[" + b"[]," * MOST_VALUES + b"[]]"
"""Nine megabytes; two hundred as lists."""


@pytest.mark.parametrize("sign", [",", "[", "{"])
def test_values_are_counted_by_what_begins_or_parts_them(sign: str) -> None:
    for text in ("x" + sign * MOST_VALUES, "x" * MOST_VALUES + sign):
        assert not has_too_many_values(text)
        assert not has_too_many_values(text.encode())
    assert has_too_many_values(sign * (MOST_VALUES + 1))
    assert has_too_many_values(bytearray((sign * (MOST_VALUES + 1)).encode()))


def test_long_texts_are_no_values() -> None:
    assert loads(b'["' + b"word " * MOST_VALUES + b'"]')


def read_request(body: bytes) -> None:
    with pytest.raises(ProxyError, match=r"request_too_large: .* values"):
        ClientRequest.from_json(body, id="r", received=1)


def read_answer(body: bytes) -> None:
    request = ClientRequest.from_body({"messages": [{}], "stream": True}, id="r", received=1)
    for start, end in ((b'data: {"choices":', b"}\n\n"), (b'{"choices":', b"}"), (b"data: ", b"\n\n")):
        normalizer = StreamNormalizer(request, load_profile("generic"))
        events = [event for data in (start, body, end) for event in normalizer.receive_data(data)]
        events += normalizer.receive_eof(True)
        assert isinstance(events[-1], Failed)
        assert events[-1].error.kind == "upstream_bad_response"


def parse(read: Callable[[bytes], object]) -> Callable[[bytes], None]:
    def parse(body: bytes) -> None:
        with pytest.raises(ValueError, match="too many values"):
            read(body)

    return parse


def hold_against_a_schema(body: bytes) -> None:
    text = body.decode()
    assert Expectation("f", schema={"type": "array"}).unmet([], text) == "the answer holds too many values"
    assert unfenced(text) is text


READERS: Final = {
    "a request": read_request,
    "an answer": read_answer,
    "a document": parse(loads),
    "an odd document": parse(loads_leniently),
    "payloads": parse(read_payloads),
    "a demand": hold_against_a_schema,
}


@pytest.mark.parametrize("name", READERS)
def test_no_reader_makes_objects_of_it(name: str) -> None:
    tracemalloc.start()
    try:
        READERS[name](LISTS)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held < 5 * len(LISTS)
