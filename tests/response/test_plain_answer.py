"""What is read in one look is read as all the stages would read it, and what is odd is not read in one look."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.client_request import ClientRequest
from svir_proxy.profiles.loader import load_profile
from svir_proxy.response.plain_answer import read_plain
from tests.support.core import answered_cases, normalize, profile_of, request_of

if TYPE_CHECKING:
    from svir_proxy.response.events import Event

GENERIC = load_profile("generic")
REQUEST = ClientRequest.from_body({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}, id="r", received=1)
DOCUMENTS = [case for case in answered_cases() if case.body.lstrip()[:1] == b"{"]
PLAIN: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 5,
    "model": "m-1",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello, wörld.", "refusal": None, "annotations": []},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}


def is_plain(answer: Any) -> bool:
    return read_plain(answer, REQUEST, GENERIC) is not None


def both_ways(read: Any) -> tuple[list[Event], list[Event]]:
    with mock.patch("svir_proxy.response.normalizer.read_plain", return_value=None):
        slowly = read()
    return read(), slowly


@pytest.mark.parametrize("case", DOCUMENTS, ids=lambda case: case.key)
def test_recorded_answers(case: Any) -> None:
    at_once, slowly = both_ways(lambda: normalize(request_of(case), profile_of(case), [case.body]))
    assert at_once == slowly


def test_the_usual_answer_is_plain() -> None:
    assert is_plain(PLAIN)
    assert sum(is_plain(json.loads(case.body)) for case in DOCUMENTS if _is_json(case.body)) > 10


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


ODD = st.sampled_from(
    [
        *(None, "", 0, 1, False, True, [], {}, 1.5, 10**30),
        *("error", "stop", "text", "<think>a</think>b", "[THINK]", "é\ud83d"),
        *(["x"], {"message": "no"}, {"filtered": True}),
        *([{"type": "text", "text": "t"}], [{"function": {"name": "f"}}]),
    ]
)
KEYS = {
    "answer": "id object created model choices usage error x_groq detail message prompt_filter_results"
    " prompt_annotations system_fingerprint service_tier timings other",
    "choice": "index message delta text finish_reason logprobs error usage stop_reason content_filter_results other",
    "message": "role content refusal tool_calls function_call reasoning reasoning_content thinking reasoning_details"
    " annotations audio other",
    "usage": "prompt_tokens completion_tokens total_tokens input_tokens reasoning_tokens other",
}


@st.composite
def answers(draw: st.DrawFn) -> dict[str, Any]:
    """The plain answer with up to three things about it changed, added or left out."""
    answer = json.loads(json.dumps(PLAIN))
    choice = answer["choices"][0]
    places = {"answer": answer, "choice": choice, "message": choice["message"], "usage": answer["usage"]}
    for _ in range(draw(st.integers(0, 3))):
        where = draw(st.sampled_from(list(places)))
        key = draw(st.sampled_from(KEYS[where].split()))
        if draw(st.booleans()):
            places[where][key] = deepcopy(draw(ODD))
        else:
            places[where].pop(key, None)
    if draw(st.booleans()) and isinstance(answer.get("choices"), list):
        answer["choices"] += draw(st.lists(ODD, max_size=1))
    return answer


@given(answers())
def test_any_answer(answer: dict[str, Any]) -> None:
    body = json.dumps(answer).encode()
    at_once, slowly = both_ways(lambda: normalize(REQUEST, GENERIC, [body]))
    assert at_once == slowly
