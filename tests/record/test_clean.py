"""What belongs to a person or a machine does not stay in a recording, and what is left is still what it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.record.clean import Cleaner

HOMES = "/ho" + "me/"
USERS = "/Us" + "ers/"
CLEAN = Cleaner(["my-secret"], ["gpu-box.lan", "127.0.0.1"], ["annabel", "root"])


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("my-secretmy-secret", "SECRETSECRET"),
        ("key sk-proj-abcdefghijklmnop1234 was wrong", "key SECRET was wrong"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer SECRET"),
        ("org-abcdefghijkl12", "SECRET"),
        (f'"model": "{HOMES}annabel/models/qwen.gguf"', '"model": "/models/qwen.gguf"'),
        (f"loaded {USERS}Anna Bel/x", None),
        (r'"\/ho' + r'me\/annabel\/qwen.gguf"', '"/models/qwen.gguf"'),
        (r'"C:\\Users\\annabel\\qwen.gguf"', '"/models/qwen.gguf"'),
        ("write to annabel@example.org", "write to somebody@server.example"),
        ("http://gpu-box.lan:8080/v1 by Annabel", "http://server.example:8080/v1 by somebody"),
        ("annabelle and the root of 127.0.0.1", "annabelle and the root of 127.0.0.1"),
        (
            f"Qwen/Qwen3-32B at /v1/chat/completions and/or a{HOMES}b",
            f"Qwen/Qwen3-32B at /v1/chat/completions and/or a{HOMES}b",
        ),
    ],
)
def test_a_text(text: str, cleaned: str | None) -> None:
    told = CLEAN.text(text)
    assert "Anna" not in told.split() if cleaned is None else told == cleaned


def test_headers_are_those_a_case_is_about() -> None:
    headers = {
        "content-type": "text/event-stream",
        "server": "gpu-box.lan",
        "set-cookie": "a=1",
        "openai-organization": "o",
    }
    assert CLEAN.headers(headers) == {"content-type": "text/event-stream", "server": "server.example"}


_WORDS = st.sampled_from(
    [
        "my-secret",
        "sk-abcdefghijklmnop",
        f"{HOMES}annabel/a.gguf",
        "gpu-box.lan",
        "annabel",
        "a@b.cd",
        '"',
        "\\",
        "\n",
        " x ",
    ]
)


@given(st.lists(_WORDS | st.text(max_size=6), max_size=12).map("".join))
def test_json_stays_json_and_nothing_known_stays(text: str) -> None:
    told = CLEAN(json.dumps({"text": text}).encode())
    assert set(json.loads(told)) == {"text"}
    assert b"my-secret" not in told


@given(st.lists(_WORDS, max_size=8).map("".join))
def test_what_is_clean_stays_as_it_is(text: str) -> None:
    once = CLEAN(json.dumps(text).encode())
    assert CLEAN(once) == once


@given(st.from_regex(r"[A-Za-z0-9]{8,20}", fullmatch=True), st.binary(max_size=30), st.binary(max_size=30))
def test_a_secret_is_found_wherever_it_is(secret: str, before: bytes, after: bytes) -> None:
    cleaner = Cleaner([secret])
    if secret != "SECRET":
        assert secret.encode() not in cleaner(before + secret.encode() + after) or secret in "SECRET"


@pytest.mark.parametrize("before", ["\n", "\t", "\u00e9", '"', " ", ""])
@pytest.mark.parametrize(
    "secret", ["sk-abcdefghijklmnop", "annabel", "gpu-box.lan", "x@annabel.org", f"{HOMES}annabel/a.gguf"]
)
def test_an_escape_before_it_hides_nothing(before: str, secret: str) -> None:
    told = json.loads(CLEAN(json.dumps(before + secret).encode()))
    assert secret not in told
    assert told.startswith(before)
