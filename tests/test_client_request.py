"""What the client asked for, and what no server could work with."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError

HI = {"role": "user", "content": "Hi"}
LOOK, FIND = ({"type": "function", "function": {"name": name, "parameters": {"a": name}}} for name in ("look", "find"))


def read(**fields):
    return ClientRequest.from_body({"messages": [HI], **fields}, id="req-1", received=7)


REFUSED = {
    # body: kind, param, words
    "no JSON": (b"{", ("invalid_json", None), "not valid JSON"),
    "broken UTF-8": (b'{"a": "\xff"}', ("invalid_json", None), "not valid JSON"),
    "no object": (b"[1]", ("invalid_json", None), "a list"),
    "nothing": (b"", ("invalid_json", None), "not valid JSON"),
    "nested too deeply": (b"[" * 100_000, ("invalid_json", None), "not valid JSON"),
    "no messages": ({}, ("invalid_request", "messages"), "required"),
    "messages null": ({"messages": None}, ("invalid_request", "messages"), "required"),
    "messages as text": ({"messages": "Hi"}, ("invalid_request", "messages"), "not a string"),
    "messages as a number": ({"messages": 7}, ("invalid_request", "messages"), "not a number"),
    "no message": ({"messages": []}, ("invalid_request", "messages"), "empty"),
    "a message as text": ({"messages": [HI, "Hi"]}, ("invalid_request", "messages[1]"), "not a string"),
    "a message null": ({"messages": [None]}, ("invalid_request", "messages[0]"), "not null"),
    "two choices": ({"messages": [HI], "n": 2}, ("unsupported_parameter", "n"), "one choice"),
    "no choice": ({"messages": [HI], "n": 0}, ("unsupported_parameter", "n"), "one choice"),
    "a choice as text": ({"messages": [HI], "n": "1"}, ("unsupported_parameter", "n"), "one choice"),
    "a boolean choice": ({"messages": [HI], "n": True}, ("unsupported_parameter", "n"), "one choice"),
    "a model that is no text": ({"messages": [HI], "model": True}, ("invalid_request", "model"), "a boolean"),
    "a model as an object": ({"messages": [HI], "model": {}}, ("invalid_request", "model"), "an object"),
}

SIMPLE = {
    # field: value, what is read
    "a model": ({"model": "m"}, "model", "m"),
    "no model": ({"model": None}, "model", ""),
    "one choice": ({"n": 1}, "stream", False),
    "one choice, as a float": ({"n": 1.0}, "stream", False),
    "n null": ({"n": None}, "stream", False),
    "a stream": ({"stream": True}, "stream", True),
    "stream null": ({"stream": None}, "stream", False),
    "a stream by another word": ({"stream": "true"}, "stream", False),
    "usage": ({"stream_options": {"include_usage": True}}, "include_usage", True),
    "no usage": ({"stream_options": {"include_usage": False}}, "include_usage", False),
    "stream_options null": ({"stream_options": None}, "include_usage", False),
    "stream_options of another type": ({"stream_options": [1]}, "include_usage", False),
}

TOOLS = {
    # what is sent: the names
    "none": ({}, ()),
    "two": ({"tools": [LOOK, FIND]}, ("look", "find")),
    "flat ones": ({"tools": [{"type": "function", "name": "look"}]}, ("look",)),
    "the old form": ({"functions": [{"name": "look"}]}, ("look",)),
    "both forms": ({"tools": [FIND], "functions": [{"name": "look"}]}, ("find", "look")),
    "null": ({"tools": None, "functions": None}, ()),
    "other types": ({"tools": {"name": "look"}, "functions": "look"}, ()),
    "entries that are none": ({"tools": [None, 7, {}, {"function": {"name": 7}}, {"function": {"name": ""}}, LOOK]}, ("look",)),
    "old entries that are none": ({"functions": [None, {}, {"name": 7}, {"name": ""}]}, ()),
}  # fmt: skip

CHOICES = {
    # fields: the choice, the function it names
    "nothing": ({}, (None, None)),
    "auto": ({"tool_choice": "auto"}, ("auto", None)),
    "none": ({"tool_choice": "none"}, ("none", None)),
    "required": ({"tool_choice": "required"}, ("required", None)),
    "another word": ({"tool_choice": "any"}, (None, None)),
    "a function": ({"tool_choice": {"type": "function", "function": {"name": "look"}}}, ("named", "look")),
    "a flat function": ({"tool_choice": {"type": "function", "name": "look"}}, ("named", "look")),
    "a function without name": ({"tool_choice": {"type": "function", "function": {}}}, (None, None)),
    "a name that is none": ({"tool_choice": {"function": {"name": 7}}}, (None, None)),
    "an empty name": ({"tool_choice": {"name": ""}}, (None, None)),
    "null": ({"tool_choice": None}, (None, None)),
    "a list": ({"tool_choice": ["look"]}, (None, None)),
    "the old form": ({"function_call": {"name": "look"}}, ("named", "look")),
    "the old form's none": ({"function_call": "none"}, ("none", None)),
    "the old form beside null": ({"tool_choice": None, "function_call": "none"}, ("none", None)),
    "the old form beside the new": ({"tool_choice": "auto", "function_call": "none"}, ("auto", None)),
}

PARTS = {
    "text": ("Hi", set()),
    "text as a part": ([{"type": "text", "text": "Hi"}], set()),
    "an image": ([{"type": "text"}, {"type": "image_url"}], {"image"}),
    "everything": (
        [{"type": kind} for kind in ("input_image", "input_audio", "file", "video_url")],
        {"image", "audio", "file", "video"},
    ),
    "null": (None, set()),
    "parts that are none": (["image_url", None, {"type": ["image_url"]}, {}], set()),
}


@pytest.mark.parametrize(("body", "expected", "words"), REFUSED.values(), ids=REFUSED)
def test_what_no_server_could_work_with(body, expected, words):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(ProxyError) as caught:
        ClientRequest.from_json(raw, id="req-1", received=7)
    assert (caught.value.kind, caught.value.param) == expected
    assert words in caught.value.message


@pytest.mark.parametrize(("fields", "name", "value"), SIMPLE.values(), ids=SIMPLE)
def test_simple_fields(fields, name, value):
    assert getattr(read(**fields), name) == value


@pytest.mark.parametrize(("fields", "names"), TOOLS.values(), ids=TOOLS)
def test_tools(fields, names):
    request = read(**fields)
    assert request.tool_names == names
    assert tuple(request.tool_parameters()) == names


def test_parameters_of_tools():
    odd = [{"function": {"name": "a"}}, {"function": {"name": "b", "parameters": None}}]
    assert read(tools=[LOOK, *odd]).tool_parameters() == {"look": {"a": "look"}, "a": {}, "b": {}}


@pytest.mark.parametrize(("fields", "expected"), CHOICES.values(), ids=CHOICES)
def test_tool_choice(fields, expected):
    request = read(**fields)
    assert (request.tool_choice, request.named_tool) == expected


@pytest.mark.parametrize(("content", "kinds"), PARTS.values(), ids=PARTS)
def test_kinds_of_content(content, kinds):
    assert read(messages=[HI, {"role": "user", "content": content}]).part_kinds == kinds


def test_ids_of_calls_in_the_history():
    calls = [{"id": "a"}, {"id": None}, {}, None, {"id": "b"}]
    messages = [
        HI,
        {"tool_calls": calls},
        {"tool_calls": None},
        {"tool_calls": {"id": "x"}},
        {"tool_calls": [{"id": "c"}]},
    ]
    assert read(messages=messages).call_ids == {"a", "b", "c"}


def test_the_body_is_kept_as_it_came():
    body = {"messages": [HI], "top_k": 5, "tools": None}
    request = ClientRequest.from_json(bytearray(json.dumps(body).encode()), id="req-1", received=7)
    assert (request.id, request.received, request.body) == ("req-1", 7, body)


@pytest.mark.parametrize(
    ("content", "read"),
    [
        (r"cut \ud83d", "cut \ufffd"),
        (r"\ude00 cut", "\ufffd cut"),
        (r"whole \ud83d\ude00", "whole \U0001f600"),
        (r"both \ud83d\ude00 and \ud83d.", "both \U0001f600 and \ufffd."),
        (r"no escape \\ud83d", "no escape \\ud83d"),
        (r"no escape \\ud83d\ude00", "no escape \\ud83d\ufffd"),
        (r"\ud83d\ud83d\ude00\\\ude00", "\ufffd\U0001f600\\\ufffd"),
    ],
)
def test_half_a_character_is_read_and_told(content: str, read: str) -> None:
    raw = b'{"messages": [{"role": "user", "content": "%b"}]}' % content.encode()
    request = ClientRequest.from_json(raw, id="r", received=1)
    assert request.body["messages"][0]["content"] == read
    assert request.notes == (("text=half_characters_replaced",) if "\ufffd" in read else ())


@given(
    st.lists(st.sampled_from([r"\ud83d", r"\uDe00", r"\\", r"\n", r"\u00e9", "u", "d83d", "x"]), max_size=12).map(
        "".join
    )
)
def test_any_text_with_halves_reads_as_it_does_elsewhere_but_for_them(content: str) -> None:
    elsewhere = json.loads(f'"{content}"').encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    raw = b'{"messages": [{"role": "user", "content": "%b"}]}' % content.encode()
    assert ClientRequest.from_json(raw, id="r", received=1).body["messages"][0]["content"] == elsewhere


def test_one_half_among_many_whole_characters() -> None:
    smiles = rb"\ud83d\ude00 " * 120_000 + rb"\ud83d\ude00" * 120_000
    raw = b'{"messages": [{"role": "user", "content": "%b\\ud83d"}]}' % smiles
    read = ClientRequest.from_json(raw, id="r", received=1).body["messages"][0]["content"]
    assert (len(read), read[-1]) == (3 * 120_000 + 1, "\ufffd")


def test_so_many_halves_are_no_text() -> None:
    raw = b'{"messages": [{"role": "user", "content": "%b"}]}' % (rb"\ud83d" * 200_000)
    with pytest.raises(ProxyError, match="not valid JSON"):
        ClientRequest.from_json(raw, id="r", received=1)


@pytest.mark.parametrize("raw", [rb'{"a": "\ud83d", "b": NaN}', rb'{"a": "\ud83d"', rb'{"a": "\ud8"}'])
def test_what_is_wrong_beside_half_a_character_is_refused(raw: bytes) -> None:
    with pytest.raises(ProxyError, match="not valid JSON"):
        ClientRequest.from_json(raw, id="r", received=1)
