from __future__ import annotations

import pytest

from svir_proxy.response.stages.text_calls.channel_forms import BAR
from tests.support.text_calls import read

TIDE = ("get_tide", {"harbour": "Mole"})
TABLE = ("get_tide_table", {})
ARGUMENTS = '{"harbour": "Mole"}'


def deepseek(text: str) -> str:
    return text.replace("<:", f"<{BAR}tool\u2581").replace(":>", f"{BAR}>")


CALL, CALL_END = "<:call\u2581begin:>", "<:call\u2581end:>"
CALLS_BEGIN, CALLS_END = "<:calls\u2581begin:>", "<:calls\u2581end:>"

CALLS = {
    "deepseek v3": (
        deepseek(
            f"{CALLS_BEGIN}{CALL}function<:sep:>get_tide\n```json\n{ARGUMENTS}\n```{CALL_END}\n"
            f"{CALL}function<:sep:>get_tide_table\n```json\n{{}}\n```{CALL_END}{CALLS_END}"
        ),
        [TIDE, TABLE],
    ),
    "deepseek v3.1": (deepseek(f"{CALLS_BEGIN}{CALL}get_tide<:sep:>{ARGUMENTS}{CALL_END}{CALLS_END}"), [TIDE]),
    "deepseek, section forgotten": (deepseek(f"{CALL}get_tide<:sep:>{ARGUMENTS}{CALL_END}"), [TIDE]),
    "kimi": (
        (
            f"<|tool_calls_section_begin|><|tool_call_begin|>functions.get_tide:0<|tool_call_argument_begin|>{ARGUMENTS}"
            "<|tool_call_end|><|tool_call_begin|>functions.get_tide_table:12 <|tool_call_argument_begin|>{}"
            "<|tool_call_end|><|tool_calls_section_end|>"
        ),
        [TIDE, TABLE],
    ),
    "kimi without prefix and number": (
        f"<|tool_call_begin|>get_tide<|tool_call_argument_begin|>{ARGUMENTS} <|tool_call_end|>",
        [TIDE],
    ),
    "harmony": (
        f"<|channel|>commentary to=functions.get_tide <|constrain|>json<|message|>{ARGUMENTS}<|call|>",
        [TIDE],
    ),
    "harmony, words fewer": (f"<|channel|>analysis to=functions.get_tide<|message|>{ARGUMENTS}", [TIDE]),
    "harmony, role": (
        (
            f"<|start|>assistant to=functions.get_tide<|channel|>commentary json<|message|>{ARGUMENTS}<|call|>"
            "<|start|>assistant<|channel|>commentary to=functions.get_tide_table<|message|>{}<|end|>"
        ),
        [TIDE, TABLE],
    ),
    "harmony, role opened by the template": (
        f"to=functions.get_tide<|channel|>commentary <|constrain|>json<|message|>{ARGUMENTS}",
        [TIDE],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    text, calls = CALLS[name]
    assert read(text) == ("", calls)


TEXTS = {
    "deepseek, fence open": deepseek(f"{CALL}function<:sep:>get_tide\n```json\n{ARGUMENTS}{CALL_END}"),
    "deepseek, call not ended": deepseek(f"{CALL}get_tide<:sep:>{ARGUMENTS}"),
    "deepseek, broken": deepseek(f'{CALLS_BEGIN}{CALL}get_tide<:sep:>{{"harbour": {CALL_END}{CALLS_END}'),
    "kimi, unlisted": "<|tool_call_begin|>functions.x:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
    "kimi, empty section": "<|tool_calls_section_begin|><|tool_calls_section_end|>",
    "harmony, built-in tool": '<|channel|>commentary to=python <|constrain|>code<|message|>print("a")',
    "harmony, preamble": "<|channel|>commentary<|message|>One moment.<|end|>",
    "harmony, header cut": "<|start|>assistant to=functions.get_tide<|channel|>commentary <|constrain|>json",
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name):
    assert read(TEXTS[name]) == (TEXTS[name], [])
