"""What becomes of messages: roles, their order, text in parts.

A template that drops a message says nothing of it. The count of prompt tokens does; where a server does not count, an
instruction does that is obeyed as the system's and not as the developer's.
"""

from __future__ import annotations

from typing import Any, Final

from svir_proxy.probe.answer import Reading
from svir_proxy.probe.dialogue import (
    FEW,
    FILLER,
    HELLO,
    Dialogue,
    Question,
    gained,
    in_words,
    rejected,
    size,
    unknown,
)
from svir_proxy.probe.finding import UNKNOWN, Finding
from svir_proxy.probe.subject import Messages, Subject

_PARTS: Final = "request.content_parts"
_DEVELOPER: Final = "request.developer_role"
_LATE: Final = "request.late_system"
_IN_A_ROW: Final = "request.consecutive_roles"

ORDER: Final = "Whatever is asked, answer with the one word PLUM and nothing else."
SIGN: Final = "PLUM"


def text_parts(*texts: str) -> list[dict[str, Any]]:
    """Content as a list of text parts."""
    return [{"type": "text", "text": text} for text in texts]


def _user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def content_parts(subject: Subject) -> Dialogue:
    """Two text parts, against the same text as one string."""
    whole = yield from size(subject, f"{FILLER}{HELLO}")
    parts = yield from size(subject, [_user(text_parts(FILLER, HELLO))])
    if parts.refused:
        yield rejected(_PARTS, parts)
        return
    more = gained(subject, parts, whole)
    if more is None:
        yield from _obeyed(subject, _PARTS, [_user(text_parts(ORDER, HELLO))], [_user(f"{ORDER} {HELLO}")])
    elif more < -len(FILLER.split()) // 2:
        yield Finding(_PARTS, "ignored", f"two parts are {-more} prompt tokens less than their text as a string")
    else:
        yield Finding(_PARTS, "kept", f"two parts and their text as a string differ by {abs(more)} prompt tokens")


def developer(subject: Subject) -> Dialogue:
    """``developer`` in the place of ``system``."""
    yield from _reaches(subject, _DEVELOPER, "developer", [_user(HELLO)], before=True)


def late_system(subject: Subject) -> Dialogue:
    """A ``system`` message behind others."""
    earlier = [_user(HELLO), {"role": "assistant", "content": "Hello!"}, _user(HELLO)]
    yield from _reaches(subject, _LATE, "system", earlier, before=False)


def _reaches(subject: Subject, fact: str, role: str, messages: Messages, *, before: bool) -> Dialogue:
    """Whether an instruction of *role*, *before* the others or in their middle, gets where a system's would."""

    def with_(said: str, text: str) -> Messages:
        message = {"role": said, "content": text}
        return [message, *messages] if before else [*messages[:-1], message, messages[-1]]

    given = yield from size(subject, with_(role, FILLER))
    if given.refused:
        yield rejected(fact, given)
        return
    without = yield from size(subject, messages)
    usual = yield from size(subject, [{"role": "system", "content": FILLER}, *messages])
    more, most = gained(subject, given, without), gained(subject, usual, without)
    if more is None or most is None or usual.refused or most < len(FILLER.split()) // 2:
        yield from _obeyed(subject, fact, with_(role, ORDER), [{"role": "system", "content": ORDER}, *messages])
    elif more <= FEW:
        yield Finding(fact, "ignored", f"a message of {role} is taken and not in the prompt")
    elif more >= most // 2:
        yield Finding(fact, "kept", f"it adds {more} prompt tokens, a system message in front {most}")
    else:
        yield unknown(fact, f"it adds {more} prompt tokens, a system message in front {most}")


def _obeyed(subject: Subject, fact: str, given: Messages, usual: Messages) -> Dialogue:
    """The same by what the model does with `ORDER`; only where it obeys it in its *usual* place."""
    control = yield subject.ask(usual)
    if subject.echoes or not _obeys(control) or SIGN in subject.control:
        yield unknown(fact, f"taken; an order in the usual place is not obeyed either: {in_words(control)}")
        return
    readings: list[Reading] = []
    for _ in range(2):
        reading = yield subject.ask(given)
        if _obeys(reading):
            yield Finding(fact, "kept", f"an order that is given so is obeyed: {in_words(reading)}")
            return
        readings.append(reading)
    value = UNKNOWN if any(not reading.text.strip() for reading in readings) else "ignored"
    yield Finding(fact, value, f"an order is obeyed in its usual place, and not so: {in_words(readings[0])}")


def _obeys(reading: Reading) -> bool:
    return SIGN in reading.text.upper()


def in_a_row(subject: Subject) -> Dialogue:
    """Two messages of the user in a row."""
    both = yield from size(subject, [_user(FILLER), _user(HELLO)])
    if both.refused:
        yield rejected(_IN_A_ROW, both)
        return
    one = yield from size(subject, HELLO)
    more = gained(subject, both, one)
    if more is None:
        yield unknown(_IN_A_ROW, "taken; whether both were read does not show")
    elif more <= FEW:
        yield Finding(_IN_A_ROW, "ignored", "the first of two messages of the user is not in the prompt")
    else:
        yield Finding(_IN_A_ROW, "kept", f"the first of two messages of the user adds {more} prompt tokens")


ABOUT_MESSAGES: Final = (
    Question("text in parts", (_PARTS,), content_parts),
    Question("the developer's role", (_DEVELOPER,), developer),
    Question("a late system message", (_LATE,), late_system),
    Question("one role twice", (_IN_A_ROW,), in_a_row),
)
