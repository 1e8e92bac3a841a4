"""Values as models write them, in JSON or nearly so, read into JSON text.

JSON is kept as it was written (numbers, spaces, order); only raw control characters in its strings are escaped. Python's
literals (Llama 4) and Gemma 4's (keys without quotes, strings in ``<|"|>``) become the same JSON. The reader is strict:
the first character that does not fit rejects the text, and what it returns is valid by construction.
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
_WORD: Final = re.compile(r"[\w.+-]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_BARE_KEY: Final = re.compile(r'[^:{}\[\],"<>\r\n]*')
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_JSON_BODY: Final = re.compile(r'(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_JSON_CUT: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_PYTHON_BODIES: Final = {quote: re.compile(rf"(?:[^{quote}\\]++|\\(?:x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|[^xu]))*+", re.DOTALL) for quote in "'\""}
_PYTHON_CUT: Final = re.compile(r"\\(?:x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3})?")
_PYTHON_ESCAPE: Final = re.compile(r"\\(?:[xu]([0-9a-fA-F]+)|(.))", re.DOTALL)
_PYTHON_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "\n": ""}
_VERBATIM: Final = '<|"|>'


@dataclass(frozen=True, slots=True)
class Syntax:
    """How values are written: the quotes of strings, the words for constants, and whether keys may go without quotes."""

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
            out.write((yield from reader.spaces()))
            if (yield from reader.peek()) != closers[-1]:
                if len(closers) > _DEPTH:
                    raise Rejected
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
            out.write((yield from reader.spaces()) if closers else "")
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
    if quote == _VERBATIM:
        text, _ = yield from reader.until(quote)
        out.write(quoted(text))
    elif syntax.python:
        yield from _read_escaped(reader, quote, _PYTHON_BODIES[quote], _PYTHON_CUT, _from_python, out)
    else:
        yield from _read_escaped(reader, quote, _JSON_BODY, _JSON_CUT, _from_json, out)


def _read_escaped(
    reader: Reader, quote: str, body: re.Pattern[str], cut: re.Pattern[str], recode: Callable[[str], str], out: StringIO
) -> Parse[None]:
    """Read the rest of a string whose characters may be escaped; *cut* matches an escape that is not whole yet."""
    out.write('"')
    while True:
        found = body.match(reader.text, reader.at)
        assert found is not None
        out.write(recode(found[0]))
        reader.at = found.end()
        rest = reader.text[reader.at : reader.at + 6]
        if rest.startswith(quote):
            reader.at += 1
            out.write('"')
            return
        if reader.ended or (rest and not cut.fullmatch(rest)):
            raise Rejected
        yield


def _from_json(body: str) -> str:
    return _CONTROL.sub(lambda control: f"\\u{ord(control[0]):04x}", body)


def _from_python(body: str) -> str:
    def unescaped(escape: re.Match[str]) -> str:
        code, character = escape.groups()
        if code:
            return chr(int(code, 16))
        return _PYTHON_ESCAPES.get(character, character if character in "\\'\"" else escape[0])

    return quoted(_PYTHON_ESCAPE.sub(unescaped, body))[1:-1]
