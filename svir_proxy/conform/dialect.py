"""Check raw response bytes against the canonical Chat Completions dialect.

The shapes are in ``canonical.schema.json`` next to this file; what a schema
cannot say (framing, order, consistency over a whole stream) is checked here.

Command line, one violation a line, exit status 1 when there is any::

    python -m svir_proxy.conform.dialect stream FILE [--include-usage] [--usage-optional] [--named-function]
    python -m svir_proxy.conform.dialect completion FILE [--named-function]
    python -m svir_proxy.conform.dialect error FILE
    python -m svir_proxy.conform.dialect models FILE
    python -m svir_proxy.conform.dialect model FILE

``FILE`` is ``-`` for standard input. ``--summary`` prints what the answer says
as one JSON line on standard output before any violation (``stream`` and
``completion``).
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA_PATH = Path(__file__).with_name("canonical.schema.json")

#: Every rule a violation can name, and what it demands.
RULES = {
    "framing-bom": "the body does not start with a byte order mark",
    "framing-utf8": "the body is UTF-8",
    "framing-cr": "lines end in LF only",
    "framing-line": "a line is a comment, blank, or 'data: ' and a payload without outer blanks",
    "framing-event": "an event is one data line and one blank line",
    "json": "a payload is one JSON object",
    "json-duplicate": "a JSON object names each key once",
    "schema": "an object has the canonical shape",
    "id-constant": "all chunks have the id of the first",
    "model-constant": "all chunks have the model of the first",
    "created-constant": "all chunks have the created time of the first",
    "role-first": "the first choice chunk carries the role",
    "role-once": "no later chunk carries the role",
    "tool-opening": "the first piece of a call carries id, type and name",
    "tool-continuation": "later pieces of a call carry arguments only",
    "tool-index": "calls open in the order of their indices, from 0",
    "tool-id": "the ids of the calls differ",
    "tool-arguments": "the arguments of a finished call are JSON",
    "finish-missing": "a stream without an error has a finish reason",
    "finish-once": "there is one finish reason",
    "finish-delta": "the delta next to the finish reason is empty",
    "finish-last": "no choice chunk follows the finish reason",
    "finish-calls": "the finish reason agrees with the calls",
    "usage-unasked": "usage is sent only when asked for",
    "usage-missing": "usage is sent when asked for",
    "usage-once": "there is one usage chunk",
    "usage-order": "the usage chunk follows the finish reason",
    "usage-total": "total_tokens is the sum of prompt_tokens and completion_tokens",
    "end-missing": "a stream ends with [DONE] or an error event",
    "end-done": "nothing follows [DONE]",
    "end-error": "nothing follows an error event, not even [DONE]",
    "models-unique": "no model is listed twice",
}

DONE = "[DONE]"


# --------------------------------------------------------------------------
# Reading


@dataclass
class _Event:
    """One server-sent event: its number from 1 and the text of its data."""

    number: int
    data: str


class Violation(NamedTuple):
    """A breach of a rule.

    Attributes:
        rule: A key of `RULES`.
        where: ``event N`` (from 1), ``body`` or ``end``.
        detail: What is wrong there, in words.
        keyword: Of a breach of ``schema``, what of JSON Schema it breaks: ``additionalProperties`` for a foreign key.
    """

    rule: str
    where: str
    detail: str
    keyword: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.rule}: {self.detail}"


@dataclass
class _Report:
    """The violations found so far."""

    found: list[Violation] = field(default_factory=list)

    def add(self, rule: str, where: str, detail: str, keyword: str = "") -> None:
        """Record a breach of ``rule``; the rule must be a known one."""
        if rule not in RULES:
            raise KeyError(rule)
        self.found.append(Violation(rule, where, detail, keyword))


def _frame(data: bytes, report: _Report) -> list[_Event]:
    """Split a body into events, tolerantly, reporting every deviation."""
    if data.startswith(b"\xef\xbb\xbf"):
        report.add("framing-bom", "body", "starts with a byte order mark")
        data = data[3:]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        report.add("framing-utf8", "body", f"byte {error.start} is not UTF-8")
        text = data.decode("utf-8", "replace")
    if "\r" in text:
        report.add("framing-cr", "body", "has a carriage return")
        text = text.replace("\r\n", "\n").replace("\r", "\n")

    lines = text.split("\n")
    tail = lines.pop()
    if tail:
        lines.append(tail)
    events: list[_Event] = []
    payloads: list[str] = []
    commented = False
    for line in lines:
        where = f"event {len(events) + 1}"
        if line == "":
            if payloads:
                _close_event(events, payloads, report)
                payloads = []
            elif not commented:
                report.add("framing-event", where, "blank line without an event")
            commented = False
        elif line.startswith(":"):
            commented = True
        elif line.startswith("data:"):
            payload = line[5:]
            if payload.startswith(" "):
                payload = payload[1:]
            else:
                report.add("framing-line", where, "no blank after 'data:'")
            if payload != payload.strip():
                report.add("framing-line", where, "blanks around the payload")
            payloads.append(payload)
        else:
            report.add("framing-line", where, f"unexpected line {line[:40]!r}")
    if payloads:
        report.add("framing-event", f"event {len(events) + 1}", "not ended by a blank line")
        _close_event(events, payloads, report)
    return events


def _close_event(events: list[_Event], payloads: list[str], report: _Report) -> None:
    """Append the event the collected data lines make."""
    number = len(events) + 1
    if len(payloads) > 1:
        report.add("framing-event", f"event {number}", f"{len(payloads)} data lines")
    events.append(_Event(number, "\n".join(payloads)))


def _parse(text: str | bytes, where: str, report: _Report) -> dict[str, Any] | None:
    """Parse one JSON object; None, reported, when it is not one."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        report.add("json", where, str(error))
        return None
    if not isinstance(value, dict):
        report.add("json", where, f"a JSON {type(value).__name__}, not an object")
        return None
    for key in _duplicate_keys(text):
        report.add("json-duplicate", where, f"key {key!r} occurs twice in one object")
    return value


def _duplicate_keys(text: str | bytes) -> list[str]:
    """Keys that occur more than once in one object of a valid JSON text."""
    found: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                found.append(key)
            result[key] = value
        return result

    with suppress(RecursionError):
        json.loads(text, object_pairs_hook=collect)
    return found


@functools.cache
def _validator(name: str) -> Draft202012Validator:
    """Validator for one definition of the schema."""
    schema = orjson.loads(SCHEMA_PATH.read_bytes())
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]})


def _check_schema(name: str, value: Any, where: str, report: _Report) -> bool:
    """Report each deviation from a definition; True when there is none."""
    valid = True
    for error in _validator(name).iter_errors(value):
        valid = False
        deepest = best_match([error]) or error
        path = "/".join(str(part) for part in deepest.absolute_path)
        report.add("schema", where, f"{name} at /{path}: {deepest.message[:160]}", str(deepest.validator))
    return valid


# --------------------------------------------------------------------------
# Tolerant access: a broken object must not stop the other checks


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _pieces(delta: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any], dict[str, Any]]]:
    """The tool call pieces of a delta as (index, piece, function)."""
    for item in _sequence(delta.get("tool_calls")):
        piece = _mapping(item)
        yield piece.get("index"), piece, _mapping(piece.get("function"))


# --------------------------------------------------------------------------
# Streams


@dataclass
class _Call:
    """A tool call under assembly."""

    id: str
    name: str
    arguments: str


class _StreamChecker:
    """Follows a stream event by event."""

    def __init__(self, report: _Report, *, include_usage: bool) -> None:
        self.report = report
        self.include_usage = include_usage
        self.first: dict[str, Any] | None = None
        self.choice_chunks = 0
        self.calls: dict[Any, _Call] = {}
        self.finish: str | None = None
        self.usage_chunks = 0
        self.done = False
        self.failed = False

    def event(self, event: _Event) -> None:
        """Check the next event."""
        where = f"event {event.number}"
        if self.done:
            self.report.add("end-done", where, f"{event.data[:40]!r} after [DONE]")
        elif self.failed:
            self.report.add("end-error", where, f"{event.data[:40]!r} after an error event")
        if event.data == DONE:
            self.done = True
            return
        value = _parse(event.data, where, self.report)
        if value is None:
            return
        if "error" in value:
            self.failed = True
            _check_schema("error_envelope", value, where, self.report)
            return
        self._chunk(value, where)

    def _chunk(self, chunk: dict[str, Any], where: str) -> None:
        """Check a chunk of either kind."""
        is_usage = chunk.get("choices") == []
        _check_schema("usage_chunk" if is_usage else "choice_chunk", chunk, where, self.report)
        if self.first is None:
            self.first = chunk
        for key in ("id", "model", "created"):
            if chunk.get(key) != self.first.get(key):
                self.report.add(
                    f"{key}-constant",
                    where,
                    f"{chunk.get(key)!r}, first {self.first.get(key)!r}",
                )
        if "usage" in chunk and not self.include_usage:
            self.report.add("usage-unasked", where, "has the key usage")
        if is_usage:
            self._usage(chunk, where)
        else:
            self._choice(_mapping(next(iter(_sequence(chunk.get("choices"))), None)), where)

    def _usage(self, chunk: dict[str, Any], where: str) -> None:
        self.usage_chunks += 1
        if self.usage_chunks > 1:
            self.report.add("usage-once", where, "another usage chunk")
        if self.finish is None:
            self.report.add("usage-order", where, "before the finish reason")
        _check_total(chunk.get("usage"), where, self.report)

    def _choice(self, choice: dict[str, Any], where: str) -> None:
        """Check the one choice of a choice chunk."""
        delta = _mapping(choice.get("delta"))
        self.choice_chunks += 1
        if self.choice_chunks == 1:
            if delta.get("role") != "assistant":
                self.report.add("role-first", where, "no role in the first choice chunk")
        elif "role" in delta:
            self.report.add("role-once", where, "role again")
        for index, piece, function in _pieces(delta):
            self._piece(index, piece, function, where)
        reason = choice.get("finish_reason")
        if self.finish is not None:
            rule = "finish-last" if reason is None else "finish-once"
            self.report.add(rule, where, f"follows the finish reason {self.finish!r}")
        if reason is not None:
            if delta:
                self.report.add("finish-delta", where, f"delta has {', '.join(sorted(delta))}")
            if self.finish is None:
                self.finish = _text(reason) or repr(reason)

    def _piece(self, index: Any, piece: dict[str, Any], function: dict[str, Any], where: str) -> None:
        """Check one piece of a tool call and add it to the call."""
        if not isinstance(index, int):
            index = repr(index)
        opening: list[str] = [key for key in ("id", "type") if key in piece]
        if "name" in function:
            opening.append("name")
        call = self.calls.get(index)
        if call is None:
            missing = [key for key in ("id", "type", "name") if key not in opening]
            if missing:
                self.report.add("tool-opening", where, f"call {index!r} opens without {', '.join(missing)}")
            if index != len(self.calls):
                self.report.add("tool-index", where, f"call {index!r} opens, expected {len(self.calls)}")
            identity = _text(piece.get("id"))
            if identity and identity in {known.id for known in self.calls.values()}:
                self.report.add("tool-id", where, f"id {identity!r} is taken")
            call = self.calls[index] = _Call(identity, _text(function.get("name")), "")
        elif opening:
            self.report.add("tool-continuation", where, f"call {index!r} repeats {', '.join(opening)}")
        call.arguments += _text(function.get("arguments"))

    def end(self, *, named_function: bool, usage_optional: bool) -> None:
        """Check what can only be said of the whole stream."""
        if self.failed:
            return
        if not self.done:
            self.report.add("end-missing", "end", "neither [DONE] nor an error event")
        if self.finish is None:
            self.report.add("finish-missing", "end", "no finish reason")
        else:
            calls = list(self.calls.values())
            _check_finish(self.finish, calls, "end", self.report, named_function=named_function)
        if self.include_usage and not self.usage_chunks and not usage_optional:
            self.report.add("usage-missing", "end", "no usage chunk")


def _check_total(usage: Any, where: str, report: _Report) -> None:
    """Check the sum of a usage object."""
    usage = _mapping(usage)
    keys = ("prompt_tokens", "completion_tokens", "total_tokens")
    prompt, completion, total = (usage.get(key) for key in keys)
    numbers = all(isinstance(number, int) for number in (prompt, completion, total))
    if numbers and prompt + completion != total:
        report.add("usage-total", where, f"{prompt} + {completion} is not {total}")


def _check_finish(finish: str, calls: list[_Call], where: str, report: _Report, *, named_function: bool) -> None:
    """Check that the finish reason and the calls agree."""
    if not calls:
        if finish == "tool_calls":
            report.add("finish-calls", where, "tool_calls without a call")
        return
    complete = {"tool_calls", "stop"} if named_function else {"tool_calls"}
    if finish not in complete | {"length", "content_filter"}:
        report.add("finish-calls", where, f"{finish} with {len(calls)} call(s)")
    if finish in ("length", "content_filter"):
        return
    for number, call in enumerate(calls):
        try:
            json.loads(call.arguments)  # not orjson: it refuses huge numbers and lone surrogates
        except ValueError as error:
            report.add("tool-arguments", where, f"call {number} ({call.name}): {error}")


def stream_violations(
    data: bytes,
    include_usage: bool = False,
    *,
    named_function: bool = False,
    usage_optional: bool = False,
) -> list[Violation]:
    """Violations of a streamed response body.

    ``include_usage`` says that the request asked for usage; ``usage_optional``
    accepts that none came all the same (an upstream without usage).
    ``named_function`` says that the request named the function to call, which
    lets ``stop`` finish a call.
    """
    report = _Report()
    checker = _StreamChecker(report, include_usage=include_usage)
    for event in _frame(data, report):
        checker.event(event)
    checker.end(named_function=named_function, usage_optional=usage_optional)
    return report.found


# --------------------------------------------------------------------------
# Bodies that are one JSON object


def completion_violations(data: bytes, *, named_function: bool = False) -> list[Violation]:
    """Violations of a response body that is not streamed."""
    report = _Report()
    value = _parse(data, "body", report)
    if value is None:
        return report.found
    _check_schema("completion", value, "body", report)
    _check_total(value.get("usage"), "body", report)
    choice = _mapping(next(iter(_sequence(value.get("choices"))), None))
    calls: list[_Call] = []
    for item in _sequence(_mapping(choice.get("message")).get("tool_calls")):
        function = _mapping(_mapping(item).get("function"))
        identity = _text(_mapping(item).get("id"))
        if identity and identity in {known.id for known in calls}:
            report.add("tool-id", "body", f"id {identity!r} is taken")
        calls.append(_Call(identity, _text(function.get("name")), _text(function.get("arguments"))))
    finish = _text(choice.get("finish_reason"))
    if finish:
        _check_finish(finish, calls, "body", report, named_function=named_function)
    return report.found


def _check_object(name: str, data: bytes, report: _Report) -> dict[str, Any]:
    """Parse a body and check it against one definition."""
    value = _parse(data, "body", report)
    if value is None:
        return {}
    _check_schema(name, value, "body", report)
    return value


def error_violations(data: bytes) -> list[Violation]:
    """Violations of the body of an HTTP error."""
    report = _Report()
    _check_object("error_envelope", data, report)
    return report.found


def models_violations(data: bytes) -> list[Violation]:
    """Violations of a model list."""
    report = _Report()
    seen: set[str] = set()
    for item in _sequence(_check_object("models_list", data, report).get("data")):
        identity = _text(_mapping(item).get("id"))
        if identity in seen:
            report.add("models-unique", "body", f"{identity!r} is listed twice")
        seen.add(identity)
    return report.found


def model_violations(data: bytes) -> list[Violation]:
    """Violations of a single model object."""
    report = _Report()
    _check_object("model", data, report)
    return report.found


# --------------------------------------------------------------------------
# Violations as lines


def check_stream(
    data: bytes,
    include_usage: bool = False,
    *,
    named_function: bool = False,
    usage_optional: bool = False,
) -> list[str]:
    """`stream_violations`, a line each."""
    found = stream_violations(data, include_usage, named_function=named_function, usage_optional=usage_optional)
    return [str(violation) for violation in found]


def check_completion(data: bytes, *, named_function: bool = False) -> list[str]:
    """`completion_violations`, a line each."""
    return [str(violation) for violation in completion_violations(data, named_function=named_function)]


def check_error(data: bytes) -> list[str]:
    """`error_violations`, a line each."""
    return [str(violation) for violation in error_violations(data)]


def check_models(data: bytes) -> list[str]:
    """`models_violations`, a line each."""
    return [str(violation) for violation in models_violations(data)]


def check_model(data: bytes) -> list[str]:
    """`model_violations`, a line each."""
    return [str(violation) for violation in model_violations(data)]


# --------------------------------------------------------------------------
# Summaries


def _summary(
    *,
    content: str,
    reasoning: str,
    refusal: str,
    calls: list[_Call],
    finish: str | None,
    usage: dict[str, Any] | None,
    error: Any,
) -> dict[str, Any]:
    """The common form of both summaries."""
    answered = bool(content or reasoning or refusal or calls)
    return {
        "outcome": "answer" if error is None else "error",
        "content": content,
        "reasoning": reasoning or None,
        "refusal": refusal or None,
        "tool_calls": [{"name": call.name, "arguments": call.arguments} for call in calls],
        "tool_call_ids": [call.id for call in calls],
        "finish_reason": finish,
        "usage": usage,
        "error": error,
        "partial": error is not None and answered,
    }


def summarize(data: bytes) -> dict[str, Any]:
    """What a streamed body says, as far as it can be read; never raises."""
    ignored = _Report()
    texts = {"content": "", "reasoning_content": "", "refusal": ""}
    calls: dict[Any, _Call] = {}
    finish: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    for event in _frame(data, ignored):
        if event.data == DONE:
            break
        chunk = _parse(event.data, "event", ignored) or {}
        if "error" in chunk:
            error = chunk["error"]
            break
        usage = _mapping(chunk.get("usage")) or usage
        choice = _mapping(next(iter(_sequence(chunk.get("choices"))), None))
        delta = _mapping(choice.get("delta"))
        for key in texts:
            texts[key] += _text(delta.get(key))
        for index, piece, function in _pieces(delta):
            call = calls.setdefault(index if isinstance(index, int) else None, _Call("", "", ""))
            call.id = call.id or _text(piece.get("id"))
            call.name += _text(function.get("name"))
            call.arguments += _text(function.get("arguments"))
        finish = _text(choice.get("finish_reason")) or finish
    return _summary(
        content=texts["content"],
        reasoning=texts["reasoning_content"],
        refusal=texts["refusal"],
        calls=list(calls.values()),
        finish=finish,
        usage=usage,
        error=error,
    )


def summarize_completion(data: bytes) -> dict[str, Any]:
    """What a body that is not streamed says, an error body included; never raises."""
    value = _parse(data, "body", _Report()) or {}
    choice = _mapping(next(iter(_sequence(value.get("choices"))), None))
    message = _mapping(choice.get("message"))
    calls = []
    for item in _sequence(message.get("tool_calls")):
        function = _mapping(_mapping(item).get("function"))
        calls.append(
            _Call(
                _text(_mapping(item).get("id")),
                _text(function.get("name")),
                _text(function.get("arguments")),
            )
        )
    return _summary(
        content=_text(message.get("content")),
        reasoning=_text(message.get("reasoning_content")),
        refusal=_text(message.get("refusal")),
        calls=calls,
        finish=_text(choice.get("finish_reason")) or None,
        usage=_mapping(value.get("usage")) or None,
        error=value.get("error"),
    )


# --------------------------------------------------------------------------
# Command line


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m svir_proxy.conform.dialect",
        description="Check a response body against the canonical Chat Completions dialect.",
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind in ("stream", "completion", "error", "models", "model"):
        command = kinds.add_parser(kind)
        command.add_argument("file", metavar="FILE", help="the raw body; - for standard input")
        if kind in ("stream", "completion"):
            command.add_argument(
                "--named-function",
                action="store_true",
                help="the request named the function: a call may finish with stop",
            )
            command.add_argument("--summary", action="store_true", help="print what the answer says as JSON")
        if kind == "stream":
            command.add_argument("--include-usage", action="store_true", help="the request asked for usage")
            command.add_argument(
                "--usage-optional",
                action="store_true",
                help="accept a stream without the usage that was asked for",
            )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; 0 when there is no violation, else 1."""
    options = _arguments(argv)
    data = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
    checks: dict[str, Callable[[], list[str]]] = {
        "stream": lambda: check_stream(
            data,
            options.include_usage,
            named_function=options.named_function,
            usage_optional=options.usage_optional,
        ),
        "completion": lambda: check_completion(data, named_function=options.named_function),
        "error": lambda: check_error(data),
        "models": lambda: check_models(data),
        "model": lambda: check_model(data),
    }
    if getattr(options, "summary", False):
        said = summarize(data) if options.kind == "stream" else summarize_completion(data)
        sys.stdout.write(orjson.dumps(said).decode() + "\n")
    violations = checks[options.kind]()
    for line in violations:
        sys.stdout.write(line + "\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
