"""The table of formats: what opens a call in text, and the grammar of what follows.

From recorded answers and the models' chat templates. LFM2's ``<|tool_call_start|>[..]<|tool_call_end|>`` is left out on
purpose: the dialect does not list it, and its recorded case keeps it text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from svir_proxy.response.stages.text_calls import channel_forms, json_forms, python_forms, tagged_forms
from svir_proxy.response.stages.text_calls.call import Call, Tools
from svir_proxy.response.stages.text_calls.channel_forms import BAR
from svir_proxy.response.stages.text_calls.reader import Parse, Reader

Grammar = Callable[[Reader, Tools], Parse[list[Call]]]

_DSML_BARS: Final = (BAR, BAR * 2, "|", "||")

MARKERS: Final[dict[str, Grammar]] = {
    "<tool_call>": json_forms.read_tool_call_tag,
    "<function=": tagged_forms.read_qwen_function,
    "<minimax:tool_call>": tagged_forms.read_invoke_section,
    "<function_calls>": tagged_forms.read_invoke_section,
    '<invoke name="': tagged_forms.read_invoke,
    **{f"<{bars}DSML{bars}": partial(tagged_forms.read_dsml, bars=bars) for bars in _DSML_BARS},
    "[TOOL_CALLS]": json_forms.read_mistral,
    "<|python_tag|>": json_forms.read_python_tag,
    "<|python_start|>": python_forms.read_python_block,
    "<|tool_call>": python_forms.read_gemma,
    "<|tool_call|>": json_forms.read_array,
    "```tool_code": python_forms.read_tool_code,
    f"<{BAR}tool▁calls▁begin{BAR}>": channel_forms.read_deepseek_section,
    f"<{BAR}tool▁call▁begin{BAR}>": channel_forms.read_deepseek,
    "<|tool_calls_section_begin|>": channel_forms.read_kimi_section,
    "<|tool_call_begin|>": channel_forms.read_kimi,
    "<|open|>tools<|sep|>": tagged_forms.read_kimi_tags,
    '<|open|>call tool="': tagged_forms.read_kimi_tag,
    "<|start|>assistant": channel_forms.read_harmony_role,
    "<|channel|>": channel_forms.read_harmony_channel,
}
"""What may open a call anywhere in the text."""

OPENINGS: Final[dict[str, Grammar]] = {
    **MARKERS,
    "{": partial(json_forms.read_bare, opener="{"),
    "[": partial(json_forms.read_bare, opener="["),
    "```": json_forms.read_fenced,
    "```json": json_forms.read_fenced,
    "functools[": json_forms.read_functools,
    "to=functions.": channel_forms.read_harmony_recipient,
}
"""What may open a call where the content begins: the markers, and the forms of an answer that is nothing but calls."""

CLOSERS: Final = (
    "</tool_call>",
    "</minimax:tool_call>",
    "</function_calls>",
    *(
        f"</{bars}DSML{bars}{section}>"
        for bars in _DSML_BARS
        for section in ("tool_calls", "function_calls", " calls", "calls", " tool_calls", " function_calls")
    ),
    "<|/tool_call|>",
    "<|tool_response>",
    f"<{BAR}tool▁calls▁end{BAR}>",
    "<|tool_calls_section_end|>",
    "<|close|>tools<|sep|>",
    "<|close|>message<|sep|>",
    "<|call|>",
    "<|end|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|im_end|>",
    "</s>",
)
"""Markup behind a call that says nothing more: ends of sections and turns, closers whose opener was forgotten."""
