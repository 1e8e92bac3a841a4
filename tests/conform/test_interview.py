"""What is known of a server while it is asked."""

from __future__ import annotations

from svir_proxy.conform.exchange import Exchange, Request
from svir_proxy.conform.interview import PROMPTS, Interview


def test_answers_are_kept_by_their_question() -> None:
    interview = Interview("m", prompts={**PROMPTS, "text": "Hello"})
    interview.take("plain", Exchange(Request("/"), 200))
    assert interview.readings["plain"].question == "plain"
    assert (interview.prompts["text"], PROMPTS["text"]) == ("Hello", Interview("m").prompts["text"])
