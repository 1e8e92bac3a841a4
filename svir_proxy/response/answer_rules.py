"""What an operator's rules leave of an answer: all of it, less than that, or none.

A rule looks at the answer's content, its reasoning, its refusal and the arguments of its calls, each of them whole,
however it was cut. Arguments, and content that was asked for as JSON, are read without their escapes, which could hide
a word: as one text, and each string in them by itself. The names of the functions that the client offers are its own,
and are not read; any other is the model's word, and blocks where a rule finds something in it.

- A rule that blocks leaves nothing but the usage and the finish reason ``content_filter``.
- A rule that redacts replaces its matches, and leaves JSON valid. What is found and cannot be replaced, because it only
  comes about by the replacing or spans several strings of JSON, blocks after all: nothing of it goes out.
- Token probabilities and extras spell the text out once more. They are dropped with any redaction, and where a rule
  finds something in themselves.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from svir_proxy.errors import ProxyError
from svir_proxy.patterns import Pattern
from svir_proxy.response.events import (
    ArgumentsDelta,
    ContentDelta,
    Ended,
    Event,
    ExtrasReported,
    Finished,
    Identified,
    LogprobsReported,
    Noted,
    ReasoningDelta,
    RefusalDelta,
    ToolCallStarted,
    UsageReported,
)
from svir_proxy.response.json_text import dumps, loads

_ROUNDS: Final = 3
"""How often what comes about by replacing is replaced in its turn."""
_TEXTS: Final = (ContentDelta, ReasoningDelta, RefusalDelta, ArgumentsDelta)
_LEFT_BY_BLOCKING: Final = (Identified, UsageReported, Noted, Ended)
_BESIDE: Final = (LogprobsReported, ExtrasReported)
_ESCAPE: Final = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

_Key = tuple[type[object], int]
"""One of several texts: the class of its pieces, and the index of the call."""


@dataclass(frozen=True, slots=True)
class AnswerRule:
    """One rule.

    Attributes:
        name: How notes call it.
        pattern: What it looks for.
        replacement: What takes the place of a match; None: the answer is blocked.
    """

    name: str
    pattern: Pattern
    replacement: str | None = None


def ruled(
    events: Sequence[Event],
    rules: Sequence[AnswerRule],
    *,
    json_content: bool = False,
    offered: Container[str] = (),
) -> list[Event]:
    """The *events* of a whole answer as *rules* leave them, after a note for each rule that found something.

    *json_content*: the answer's text was asked for as JSON. *offered*: the names of the client's functions.
    """
    structured = (ArgumentsDelta, ContentDelta) if json_content else (ArgumentsDelta,)
    texts = _texts(events)
    seen = {key: _Text(text, is_json=key[0] in structured) for key, text in texts.items()}
    left, hits, blocking = _judged(seen, rules)
    made_up = [event.name for event in events if isinstance(event, ToolCallStarted) and event.name not in offered]
    if blocking is None:
        blocking = next((rule for rule in rules if any(map(rule.pattern.found_in, made_up))), None)
    if blocking is not None:
        kept = [event for event in events if isinstance(event, _LEFT_BY_BLOCKING)]
        at = next((i for i, event in enumerate(kept) if isinstance(event, UsageReported | Ended)), len(kept))
        return [Noted(f"rules.{blocking.name}=blocked"), *kept[:at], Finished("content_filter"), *kept[at:]]
    said_beside = list(_beside(events))
    beside = [rule for rule in rules if any(map(rule.pattern.found_in, said_beside))]
    if not hits and not beside:
        return list(events)
    notes = [Noted(f"rules.{rule.name}=redacted") for rule in rules if rule in hits or rule in beside]
    changed = {key: text.raw for key, text in left.items() if text is not seen[key]}
    return [*notes, *_with_texts(events, changed)]


def ruled_error(error: ProxyError, rules: Sequence[AnswerRule]) -> tuple[ProxyError, list[Noted]]:
    """*error* without what *rules* find in a server's words, which may quote the answer; and what to note of it."""
    said = enumerate((error.message, error.param, error.code))
    seen: dict[_Key, _Text] = {(str, number): _Text(text, is_json=True) for number, text in said if text}
    left, hits, blocking = _judged(seen, rules)
    if blocking is not None:
        message = f"The server's own words are withheld: they match the operator's rule {blocking.name!r}."
        return replace(error, message=message, param=None, code=None), [Noted(f"rules.{blocking.name}=blocked")]
    if not hits:
        return error, []
    words, param, code = (left[key].raw if (key := (str, number)) in left else None for number in range(3))
    error = replace(error, message=words or "", param=param, code=code)
    return error, [Noted(f"rules.{rule.name}=redacted") for rule in hits]


class _Text:
    """One text of an answer; *is_json*: it should be JSON, or a piece of it."""

    __slots__ = ("_is_json", "_value", "raw")

    def __init__(self, raw: str, *, is_json: bool) -> None:
        self.raw = raw
        self._is_json = is_json
        self._value: Any = None
        if is_json:
            with contextlib.suppress(ValueError):  # cut by the limit of tokens, or never JSON
                self._value = loads(raw.encode("utf-8", "surrogatepass"))

    def is_found(self, rule: AnswerRule) -> bool:
        """Whether *rule* finds something in any reading of it."""
        return any(rule.pattern.found_in(reading) for reading in self._readings())

    def without(self, rule: AnswerRule) -> _Text:
        """The text with its matches of *rule* replaced; the same object where none can be."""
        assert rule.replacement is not None
        if self._value is None:
            raw = rule.pattern.replaced(self.raw, rule.replacement)
        else:
            try:
                value = _redacted(self._value, rule.pattern, rule.replacement)
                raw = self.raw if value is self._value else dumps(value).decode()
            except (RecursionError, ValueError):
                return self  # nested more deeply than anybody reads
        return self if raw == self.raw else _Text(raw, is_json=self._is_json)

    def _readings(self) -> Iterator[str]:
        if self._value is None or "\\" not in self.raw:
            yield self.raw
        if self._is_json and "\\" in self.raw:
            yield _ESCAPE.sub(_unescaped, self.raw)
        if self._value is not None:
            yield from _strings(self._value)


def _judged(
    texts: dict[_Key, _Text], rules: Sequence[AnswerRule]
) -> tuple[dict[_Key, _Text], list[AnswerRule], AnswerRule | None]:
    """*texts* after all redactions, the rules that made them, and the rule by which nothing is left, if any."""
    blocks = [rule for rule in rules if rule.replacement is None]
    redactions = [rule for rule in rules if rule.replacement is not None]
    hits: list[AnswerRule] = []
    if (first := _first(texts.values(), blocks)) is not None:
        return texts, hits, first
    left = texts
    for _ in range(_ROUNDS):
        now = [rule for rule in redactions if any(text.is_found(rule) for text in left.values())]
        if not now:
            break
        hits += [rule for rule in now if rule not in hits]
        before = left
        for rule in now:
            left = {key: text.without(rule) for key, text in left.items()}
        if all(text is before[key] for key, text in left.items()):
            break
    # What is there only since something was replaced, or could not be replaced, must not go out either.
    return left, hits, _first(left.values(), rules) if hits else None


def _first(texts: Iterable[_Text], rules: Iterable[AnswerRule]) -> AnswerRule | None:
    """The first of *rules* that finds something."""
    known = list(texts)
    return next((rule for rule in rules if any(text.is_found(rule) for text in known)), None)


def _texts(events: Iterable[Event]) -> dict[_Key, str]:
    pieces: dict[_Key, list[str]] = {}
    for event in events:
        if isinstance(event, _TEXTS):
            pieces.setdefault(_key(event), []).append(event.text)
    return {key: "".join(texts) for key, texts in pieces.items()}


def _key(event: ContentDelta | ReasoningDelta | RefusalDelta | ArgumentsDelta) -> _Key:
    return type(event), event.index if isinstance(event, ArgumentsDelta) else 0


def _with_texts(events: Iterable[Event], changed: dict[_Key, str]) -> Iterator[Event]:
    """*events* with what was *changed* in place of its pieces, where the first of them was, and nothing beside text."""
    left = dict(changed)
    for event in events:
        if isinstance(event, _BESIDE):
            continue
        if not isinstance(event, _TEXTS) or (key := _key(event)) not in changed:
            yield event
        elif text := left.pop(key, ""):
            yield replace(event, text=text)


def _beside(events: Sequence[Event]) -> Iterator[str]:
    """What is said once more beside the answer's texts."""
    tokens = [
        token
        for event in events
        if isinstance(event, LogprobsReported)
        for token in (*(event.content or ()), *(event.refusal or ()))
    ]
    yield "".join(token["token"] for token in tokens)
    yield "\0".join(other["token"] for token in tokens for other in token["top_logprobs"])  # none goes on from another
    for event in events:
        if isinstance(event, ExtrasReported):
            yield from _strings(event.values)


def _strings(value: Any) -> Iterator[str]:
    """Every string in *value*, keys among them."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from item
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def _redacted(value: Any, pattern: Pattern, replacement: str) -> Any:
    """*value* with the matches in its strings and keys replaced; a number with a match becomes a string.

    The same object where there is none. Of keys that become one the last counts, as for any reader of JSON.
    """
    if isinstance(value, str):
        text = pattern.replaced(value, replacement)
        return value if text == value else text
    if isinstance(value, dict):
        pairs = [
            (_redacted(key, pattern, replacement), _redacted(item, pattern, replacement)) for key, item in value.items()
        ]
        same = all(new is key and item is value[key] for (new, item), key in zip(pairs, value, strict=True))
        return value if same else dict(pairs)
    if isinstance(value, list):
        items = [_redacted(item, pattern, replacement) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else items
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = dumps(value).decode()
        replaced = pattern.replaced(text, replacement)
        return value if replaced == text else replaced
    return value


def _unescaped(escape: re.Match[str]) -> str:
    code, letter = escape.groups()
    return chr(int(code, 16)) if code else _ESCAPED.get(letter, letter)
