from __future__ import annotations

import pytest

from tests.support.text_calls import read

TIDE = ("get_tide", {"harbour": "Mole"})
TABLE = ("get_tide_table", {})

CALLS = {
    "list": ("[get_tide(harbour='Mole'), get_tide_table()]", [TIDE, TABLE]),
    "list between markers": ('<|python_start|>[get_tide(harbour="Mole")]<|python_end|>', [TIDE]),
    "values": (
        "[write(text='it\\'s', lines=[1, -2.5e3], force=True, mode=None, options={'a': [False, \"b\"]})]",
        [
            (
                "write",
                {"text": "it's", "lines": [1, -2500.0], "force": True, "mode": None, "options": {"a": [False, "b"]}},
            )
        ],
    ),
    "spaces": ("[ get_tide( harbour = 'Mole' , days = 3 ) ]\n", [("get_tide", {"harbour": "Mole", "days": 3})]),
    "gemma 3": ('```tool_code\nget_tide(harbour="Mole")\n```', [TIDE]),
    "gemma 3, printed": ('```tool_code\nprint(get_tide(harbour="Mole"))\nget_tide_table()\n```\n', [TIDE, TABLE]),
    "gemma 3, list": ('```tool_code\n[get_tide(harbour="Mole")]\n```', [TIDE]),
    "gemma 4": ('<|tool_call>call:get_tide{harbour:<|"|>Mole<|"|>}<tool_call|>', [TIDE]),
    "gemma 4, JSON's quotes": ('<|tool_call>call:get_tide{harbour: "Mole"}<tool_call|>', [TIDE]),
    "gemma 4, two": (
        '<|tool_call>call:get_tide{harbour:<|"|>Mole<|"|>}<tool_call|><|tool_call>call:get_tide_table{}<tool_call|>',
        [TIDE, TABLE],
    ),
    "gemma 4, nested": (
        '<|tool_call>call:write{text:<|"|>a "b" {c} <|tool_call>\n<|"|>,options:{two words:[1,{x:null}],y:true}}<tool_call|>',
        [("write", {"text": 'a "b" {c} <|tool_call>\n', "options": {"two words": [1, {"x": None}], "y": True}})],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    text, calls = CALLS[name]
    assert read(text) == ("", calls)


TEXTS = {
    "link": "[Tides](https://tides.example) rise.",
    "unlisted": "[get_weather(harbour='Mole')]",
    "positional": "[get_tide('Mole')]",
    "twice the same key": "[get_tide(days=1, days=2)]",
    "expression": "[get_tide(days=1+2)]",
    "a word behind": "[get_tide(days=1)] is what I call.",
    "a word before": "I call [get_tide(days=1)]",
    "unfinished": '[get_tide(harbour="Mole"), get_tide(harbour="Mo',
    "markers not closed": "<|python_start|>[get_tide(days=1)]",
    # The dialect does not list LFM2's markers, and a recorded case keeps them text.
    "lfm2": '<|tool_call_start|>[get_tide(harbour="Mole")]<|tool_call_end|>',
    "gemma 3, other code": "```tool_code\nimport os\n```",
    "gemma 3, not printed to the end": '```tool_code\nprint(get_tide(harbour="Mole")\n```',
    "gemma 4, not closed": '<|tool_call>call:get_tide{harbour:<|"|>Mole<|"|>}',
    "gemma 4, no braces": "<|tool_call>call:get_tide now<tool_call|>",
    "gemma 4, word without quotes": "<|tool_call>call:get_tide{harbour:Mole}<tool_call|>",
    "gemma 4, no key": "<|tool_call>call:get_tide{:1}<tool_call|>",
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name):
    assert read(TEXTS[name]) == (TEXTS[name], [])
