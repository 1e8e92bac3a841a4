"""Bodies that no client means, and some client will send: anything JSON can say, at every place."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st


def _any_of(words: str) -> st.SearchStrategy[str]:
    return st.sampled_from(words.split())


_KEYS: Final = _any_of(
    """role content name tool_calls tool_call_id function_call refusal reasoning reasoning_content annotations type text
    image_url url file file_data filename input_audio function arguments id parameters strict json_schema schema mode
    tools allowed_tools include_usage"""
)
_WORDS: Final = _any_of(
    """system developer user assistant tool function text image_url input_audio file refusal auto none required f g
    allowed_tools json_object json_schema high custom data:text/plain;base64,eA== https://h/a"""
)
_SCALARS: Final = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5) | _WORDS
)
_JSON: Final = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS | st.text(max_size=5), inner, max_size=5),
    max_leaves=12,
)
_FIELDS: Final = _any_of(
    """tools tool_choice functions function_call parallel_tool_calls response_format stream stream_options logprobs
    top_logprobs max_tokens max_completion_tokens reasoning_effort stop store n model seed top_k context"""
)
_OBJECT: Final = st.dictionaries(_KEYS | st.text(max_size=5), _JSON, max_size=6)
_MESSAGE: Final = st.fixed_dictionaries({"role": _WORDS, "content": _JSON}, optional={"tool_calls": _JSON}) | _OBJECT
_TEXT: Final = st.fixed_dictionaries({"role": _any_of("system user assistant"), "content": st.text(max_size=5)})
_TOOL: Final = (
    st.builds(lambda name, more: {"type": "function", "function": {"name": name, **more}}, _WORDS, _OBJECT) | _JSON
)
_FUNCTION: Final = st.fixed_dictionaries({"name": _WORDS}) | _JSON
ANY_BODY: Final = st.builds(
    lambda messages, fields, more: {**fields, **more, "messages": messages},
    st.lists(_MESSAGE, min_size=1, max_size=5) | st.lists(_TEXT, min_size=1, max_size=5),
    st.dictionaries(_FIELDS | st.text(max_size=5), _JSON, max_size=8),
    st.fixed_dictionaries(
        {},
        optional={
            "tools": st.lists(_TOOL, min_size=1, max_size=3),
            "tool_choice": _WORDS
            | st.fixed_dictionaries({"type": _WORDS}, optional={"function": _JSON, "name": _WORDS}),
            "functions": st.lists(_FUNCTION, min_size=1, max_size=2),
            "function_call": _any_of("auto none") | _FUNCTION,
            "reasoning_effort": _any_of("none minimal low high"),
            "response_format": st.fixed_dictionaries({"type": _WORDS}, optional={"json_schema": _JSON}),
        },
    ),
)
