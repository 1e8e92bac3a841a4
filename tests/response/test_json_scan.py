"""Where JSON ends, the text whole and in single characters."""

from __future__ import annotations

import pytest

from svir_proxy.response.json_scan import JsonScan

TEXTS = {
    # text: whether a whole object or array is in it
    "nothing": ("", False),
    "an object": ('{"a": 1}', True),
    "an array": ("[1, [2]]", True),
    "half": ('{"a": {"b": 1}', False),
    "brackets in a string": ('{"a": "}]"', False),
    "an escaped quote": ('{"a": "\\"}', False),
    "an escaped backslash": ('{"a": "\\\\"}', True),
    "a backslash outside of strings": ('{\\"}"}', True),
    "text behind": ("{} x", True),
    "a second value behind": ("{}{}", True),
    "a string has no end one could see": ('"a"', False),
    "a number neither": ("12", False),
    "a closer alone": ("}", True),
}


@pytest.mark.parametrize(("text", "complete"), TEXTS.values(), ids=TEXTS)
def test_texts(text, complete):
    for pieces in ([text], list(text)):
        scan = JsonScan()
        for piece in pieces:
            scan.feed(piece)
        assert scan.complete is complete
