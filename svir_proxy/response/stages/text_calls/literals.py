"""Values as models write them, in JSON or nearly so, read into JSON text.

JSON is kept as it was written (numbers, spaces, order); only raw control characters in its strings are escaped.
Python's literals (Llama 4) and Gemma 4's (keys without quotes, strings in ``<|"|>``) become the same JSON. The reader
is strict: the first character that does not fit rejects the text, and what it returns is valid by construction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Final

from svir_proxy.response.stages.text_calls.reader import Parse, Reader, Rejected

_DEPTH: Final = 128  # deeper values are no arguments, and client's parsers recurse
_ESCAPE: Final = len(r"\U0010ffff")
_WORD: Final = re.compile(r"[\w.+-]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_BARE_KEY: Final = re.compile(r'[^:{}\[\],"<>\r\n]*')
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_VERBATIM: Final = '<|"|>'


@dataclass(frozen=True, slots=True)
class Syntax:
    """How values are written: quotes of strings, words for constants, whether keys may go without quotes."""

    quotes: tuple[str, ...]
    words: Mapping[str, str]
    python: bool = False
    bare_keys: bool = False


_WORDS: Final = {word: word for word in ("true", "false", "null")}
JSON: Final = Syntax(('"',), _WORDS)
PYTHON: Final = Syntax(('"', "'"), {**_WORDS, "True": "true", "False": "false", "None": "null"}, python=True)
GEMMA: Final = Syntax((_VERBATIM, '"'), _WORDS, bare_keys=True)


def quoted(text: str) -> str:
    """*text* as a JSON string; half characters are escaped, so that it can be encoded."""
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", json.dumps(text, ensure_ascii=False))


def read_value(reader: Reader, syntax: Syntax) -> Parse[str]:
    """Read one value; its JSON text."""
    out = StringIO()
    closers: list[str] = []
    while True:
        out.write((yield from reader.spaces()))
        opener = yield from reader.one_of("{", "[", *syntax.quotes)
        if opener in {"{", "["}:
            out.write(opener)
            closers.append("}" if opener == "{" else "]")
            if len(closers) > _DEPTH:
                raise Rejected
            out.write((yield from reader.spaces()))
            if (yield from reader.peek()) != closers[-1]:
                if opener == "{":
                    yield from _read_key(reader, syntax, out)
                continue
        elif opener:
            yield from _read_string(reader, syntax, opener, out)
        else:
            word = yield from reader.run(_WORD)
            if word not in syntax.words and not _NUMBER.fullmatch(word):
                raise Rejected
            out.write(syntax.words.get(word, word))
        while closers:
            out.write((yield from reader.spaces()))
            mark = yield from reader.expect(",", closers[-1])
            out.write(mark)
            if mark == ",":
                if closers[-1] == "}":
                    yield from _read_key(reader, syntax, out)
                break
            closers.pop()
        else:
            return out.getvalue()


def read_object(reader: Reader, syntax: Syntax) -> Parse[str]:
    """Read one object; its JSON text."""
    yield from reader.spaces()
    if (yield from reader.peek()) != "{":
        raise Rejected
    return (yield from read_value(reader, syntax))


def _read_key(reader: Reader, syntax: Syntax, out: StringIO) -> Parse[None]:
    out.write((yield from reader.spaces()))
    quote = yield from reader.one_of(*syntax.quotes)
    if quote:
        yield from _read_string(reader, syntax, quote, out)
    else:
        key = (yield from reader.run(_BARE_KEY)).strip() if syntax.bare_keys else ""
        if not key:
            raise Rejected
        out.write(quoted(key))
    out.write((yield from reader.spaces()))
    out.write((yield from reader.expect(":")))


def _read_string(reader: Reader, syntax: Syntax, quote: str, out: StringIO) -> Parse[None]:
    """Read a string from behind its opening quote on."""
    if quote == _VERBATIM:
        text, _ = yield from reader.until(quote)
        out.write(quoted(text))
        return
    escapes = _PYTHON_ESCAPES if syntax.python else _JSON_ESCAPES
    body = escapes.bodies[quote]
    out.write('"')
    while True:
        found = body.match(reader.text, reader.at)
        assert found is not None
        out.write(escapes.recoded(found[0]))
        reader.at = found.end()
        rest = reader.text[reader.at : reader.at + _ESCAPE]
        if rest.startswith(quote):
            reader.at += 1
            out.write('"')
            return
        if reader.ended or (rest and not escapes.begun.fullmatch(rest)):
            raise Rejected
        yield


@dataclass(frozen=True, slots=True)
class _Escapes:
    """How characters are escaped in strings.

    Attributes:
        bodies: For each quote what may stand between two of them.
        begun: An escape that is not whole yet.
        recoded: What stands between the quotes, as it stands in a JSON string.
    """

    bodies: Mapping[str, re.Pattern[str]]
    begun: re.Pattern[str]
    recoded: Callable[[str], str]


def _from_json(body: str) -> str:
    return _CONTROL.sub(lambda control: f"\\u{ord(control[0]):04x}", body)


def _from_python(body: str) -> str:
    def unescaped(escape: re.Match[str]) -> str:
        code, character = escape[1] or escape[2] or escape[3], escape[4]
        if code:
            return chr(int(code, 16))
        return _PYTHON_CHARACTERS.get(character, escape[0])

    return quoted(_PYTHON_ESCAPE.sub(unescaped, body))[1:-1]


_HEX: Final = "[0-9a-fA-F]"
_PYTHON_ESCAPE: Final = re.compile(rf"\\(?:x({_HEX}{{2}})|u({_HEX}{{4}})|U(00(?:0{_HEX}|10){_HEX}{{4}})|([^xuU]))")
_PYTHON_CHARACTERS: Final = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "0": "\0",
    "\n": "",
    "\\": "\\",
    "'": "'",
    '"': '"',
}
_JSON_ESCAPES: Final = _Escapes(
    {'"': re.compile(rf'(?:(?>[^"\\]++|\\(?:["\\/bfnrt]|u{_HEX}{{4}})))*+')},
    re.compile(rf"\\(?:u{_HEX}{{0,3}})?"),
    _from_json,
)
_PYTHON_ESCAPES: Final = _Escapes(
    {quote: re.compile(rf"(?:(?>[^{quote}\\]++|{_PYTHON_ESCAPE.pattern}))*+") for quote in ('"', "'")},
    re.compile(rf"\\(?:x{_HEX}?|u{_HEX}{{0,3}}|U{_HEX}{{0,7}})?"),
    _from_python,
)
