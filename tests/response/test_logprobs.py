"""Token probabilities in OpenAI's shape."""

from __future__ import annotations

import pytest

from svir_proxy.response.events import LogprobsReported
from svir_proxy.response.logprobs import joined_logprobs, read_logprobs


def token(text="a", logprob=-0.5, raw=None, top=()):
    return {"token": text, "logprob": logprob, "bytes": raw, "top_logprobs": list(top)}


def top(text="b", logprob=-1.5, raw=None):
    return {"token": text, "logprob": logprob, "bytes": raw}


TOKENS = {
    "OpenAI": (token(raw=[97], top=[top(raw=[98])]), token(raw=[97], top=[top(raw=[98])])),
    "foreign keys (llama.cpp's ids)": ({**token(), "id": 7, "top_logprobs": [{**top(), "id": 8}]}, token(top=[top()])),
    "nothing but the token": ({"token": "a"}, token(logprob=-9999.0)),
    "never": ({"token": "a", "logprob": float("-inf")}, token(logprob=-9999.0)),
    "not a number": ({"token": "a", "logprob": float("nan")}, token(logprob=-9999.0)),
    "certain": ({"token": "a", "logprob": 0}, token(logprob=0)),
    "bytes that are none": ({**token(), "bytes": [97, 256]}, token()),
    "bytes as text": ({**token(), "bytes": "a"}, token()),
    "top tokens that are none": ({**token(), "top_logprobs": [1, {"token": 2}, top()]}, token(top=[top()])),
    "top tokens as an object": ({**token(), "top_logprobs": {"b": -1.5}}, token()),
}

NOTHING = {
    "null": None,
    "a list": [token()],
    "the old shape": {"tokens": ["a"], "token_logprobs": [-0.5]},
    "empty": {"content": []},
    "content that is no list": {"content": {"token": "a"}, "refusal": "a"},
    "no token": {"content": [None, {"token": None}, {"token": "a", "logprob": "x"}, {"token": "a", "logprob": True}]},
}


@pytest.mark.parametrize(("reported", "expected"), TOKENS.values(), ids=TOKENS)
def test_tokens(reported, expected):
    assert read_logprobs({"content": [reported], "refusal": None}) == LogprobsReported([expected], None)
    assert read_logprobs({"refusal": [reported, 1]}) == LogprobsReported(None, [expected])


@pytest.mark.parametrize("reported", NOTHING.values(), ids=NOTHING)
def test_nothing_to_report(reported):
    assert read_logprobs(reported) is None


def test_joined():
    a, b, c = token("a"), token("b"), token("c")
    reports = [LogprobsReported([a], None), LogprobsReported(None, [b]), LogprobsReported([c], None)]
    assert joined_logprobs(reports) == {"content": [a, c], "refusal": [b]}
    assert joined_logprobs(reports[:1]) == {"content": [a], "refusal": None}
    assert reports[0] == LogprobsReported([a], None)
