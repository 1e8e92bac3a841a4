"""What of a JSON value may be seen: all of it, or its structure and its sizes only.

Without `inspector.show_prompts` nothing that a person or a model wrote is kept, not even in memory. What may be seen
then is listed here, by name; whatever a server or a client makes up tomorrow is hidden until it is listed too.
"""

from __future__ import annotations

import re
from typing import Any, Final

LONGEST: Final = 2000
"""Characters of a text that are shown."""
_MOST: Final = 1500
"""Values of one document that are shown."""
_DEEPEST: Final = 40

_WORDS: Final = frozenset({
    *("role", "type", "model", "object", "id", "tool_call_id", "call_id", "code", "param", "status", "format"),
    *("finish_reason", "native_finish_reason", "tool_choice", "reasoning_effort", "effort", "verbosity", "detail"),
    *("service_tier", "system_fingerprint", "encoding_format", "owned_by", "severity"),
})  # fmt: skip
"""Keys whose text is a word of the protocol or an identity; shown where it looks like one."""
_NUMBERS: Final = frozenset({
    *("index", "created", "n", "seed", "temperature", "top_p", "top_k", "min_p", "top_logprobs", "status", "code"),
    *("presence_penalty", "frequency_penalty", "repetition_penalty", "repeat_penalty", "total", "processed", "cache"),
    *("prompt_n", "predicted_n", "cache_n", "draft_n", "draft_n_accepted"),
})  # fmt: skip
_COUNTS: Final = ("_tokens", "_ms", "_per_second", "_seconds")
"""How the names of counts and times end."""
_NAMED: Final = frozenset({"function", "functions", "function_call", "tools", "tool_choice", "json_schema"})
"""Where a ``name`` is one of a function or of a schema, and nobody's."""
_WORD: Final = re.compile(r"[A-Za-z0-9._:/@+-]{1,100}")
_KEY: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$.-]{0,63}")
_BLOB: Final = re.compile(r"svir-blob-[0-9a-f]{16}-\d+;")


class Veil:
    """Makes values fit to be seen. *prompts*: whether what people and models wrote may be."""

    def __init__(self, prompts: bool) -> None:
        self.prompts = prompts

    def text(self, text: str) -> str:
        """A text that somebody wrote."""
        if not self.prompts:
            return f"«{counted(len(text), 'character')}»"
        text = _BLOB.sub("…", text)
        if len(text) <= LONGEST:
            return text
        return f"{text[:LONGEST]}… ({counted(len(text) - LONGEST, 'more character')})"

    def key(self, key: str) -> str:
        """The name of a field."""
        return key[:100] if self.prompts or _KEY.fullmatch(key) else f"«{counted(len(key), 'character')}»"

    def leaf(self, value: Any, key: str = "", parent: str = "") -> Any:
        """A value that is no container, under *key* of what stands under *parent*."""
        if isinstance(value, str):
            is_word = key in _WORDS or (key == "name" and parent in _NAMED)
            return value if is_word and _WORD.fullmatch(value) else self.text(value)
        if value is None or isinstance(value, bool) or self.prompts:
            return value
        return value if key in _NUMBERS or key.endswith(_COUNTS) else "«number»"

    def value(self, value: Any, key: str = "", parent: str = "") -> Any:
        """A whole value, as `leaf` has those in it; of a very large one the beginning."""
        return self._value(value, key, parent, 0, [_MOST])

    def _value(self, value: Any, key: str, parent: str, depth: int, left: list[int]) -> Any:
        left[0] -= 1
        if not isinstance(value, (dict, list)):
            return self.leaf(value, key, parent)
        if depth > _DEEPEST or left[0] < 0:
            return "«more»"
        if isinstance(value, list):
            if not self.prompts and len(value) > 1 and all(type(item) in (int, float) for item in value):
                return f"«{counted(len(value), 'number')}»"  # token ids and bytes spell a text out
            items: list[Any] = []
            for item in value:
                if left[0] <= 0:
                    items.append(f"«{len(value) - len(items)} more»")
                    break
                # What is in a list stands under the list's key, but is not what that key promises of a number.
                items.append(self._value(item, "", key, depth + 1, left))
            return items
        shown: dict[str, Any] = {}
        for name, item in value.items():
            if left[0] <= 0:
                shown["…"] = f"«{len(value) - len(shown)} more»"
                break
            shown[self.key(name)] = self._value(item, name, key or parent, depth + 1, left)
        return shown


def counted(number: int, noun: str) -> str:
    """``1 character``, ``1,200 characters``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
