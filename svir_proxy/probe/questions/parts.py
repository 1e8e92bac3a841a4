"""Content beside text: whether it is taken, and whether anything of it gets to the model.

The smallest media there are. Where the server counts prompt tokens, an image that is taken and not looked at shows.
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from typing import Any, Final

from svir_proxy.probe.dialogue import FEW, FILLER, Dialogue, Question, gained, in_words, rejected, size, unknown
from svir_proxy.probe.finding import Finding
from svir_proxy.probe.subject import Messages, Subject

_IMAGES: Final = "request.images"
_REMOTE: Final = "request.remote_images"
_AUDIO: Final = "request.audio"
_FILES: Final = "request.files"

LOOK: Final = "What color is this image? Answer with one word."
COLOR: Final = "red"
_SIDE: Final = 64
_NOBODY: Final = "http://127.0.0.1:9/probe.png"
"""An image that nobody serves: a server that tries to fetch it fails, one that does not says so."""
_NOT_BY_URL: Final = re.compile(r"base64|data.?ur[li]|inline|url.{0,40}not|not.{0,40}url|remote", re.IGNORECASE)


def red_square() -> str:
    """A PNG of one color, as a data URL."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xff\0\0" * _SIDE) * _SIDE
    head = struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def silence() -> str:
    """A tenth of a second of nothing as a WAV, in Base64."""
    rate, samples = 16000, b"\0\0" * 1600
    head = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", 36 + len(samples), b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    return base64.b64encode(head + struct.pack("<4sI", b"data", len(samples)) + samples).decode()


def _with(part: dict[str, Any]) -> Messages:
    return [{"role": "user", "content": [{"type": "text", "text": LOOK}, part]}]


def images(subject: Subject) -> Dialogue:
    """An image inline, and one by its URL."""
    part = {"type": "image_url", "image_url": {"url": red_square()}}
    seen = yield subject.ask(_with(part))
    if seen.refused:
        yield rejected(_IMAGES, seen)
        yield unknown(_REMOTE, "images as such are refused")
        return
    blind = yield subject.ask(LOOK)
    more = gained(subject, seen, blind)
    named = COLOR in seen.text.lower() and COLOR not in blind.text.lower() and not subject.echoes
    if more is not None and more <= FEW and not named:
        yield Finding(_IMAGES, "ignored", f"the image is taken and not in the prompt; {in_words(seen)}")
        yield unknown(_REMOTE, "images as such are not looked at")
        return
    if more is not None:
        yield Finding(_IMAGES, "kept", f"the image adds {more} prompt tokens; {in_words(seen)}")
    elif named:
        yield Finding(_IMAGES, "kept", f"asked for the color, it says {in_words(seen)}")
    else:
        yield unknown(_IMAGES, f"taken; whether it was looked at does not show: {in_words(seen)}")
    far = yield subject.ask(_with({"type": "image_url", "image_url": {"url": _NOBODY}}), room=subject.least)
    if far.refused and _NOT_BY_URL.search(far.message):
        yield rejected(_REMOTE, far)
    else:
        yield unknown(_REMOTE, f"asked for an image that nobody serves: {in_words(far)}")


def audio(subject: Subject) -> Dialogue:
    """A sound."""
    yield from _heard(subject, _AUDIO, {"type": "input_audio", "input_audio": {"data": silence(), "format": "wav"}})


def files(subject: Subject) -> Dialogue:
    """A text file."""
    data = f"data:text/plain;base64,{base64.b64encode(FILLER.encode()).decode()}"
    yield from _heard(subject, _FILES, {"type": "file", "file": {"filename": "harbour.txt", "file_data": data}})


def _heard(subject: Subject, fact: str, part: dict[str, Any]) -> Dialogue:
    reading = yield subject.ask(_with(part), room=subject.least)
    if reading.refused:
        yield rejected(fact, reading)
        return
    more = gained(subject, reading, (yield from size(subject, LOOK)))
    if more is None:
        yield unknown(fact, "taken; whether it gets to the model does not show")
    elif more <= FEW:
        yield Finding(fact, "ignored", "taken and not in the prompt")
    else:
        yield Finding(fact, "kept", f"it adds {more} prompt tokens")


ABOUT_PARTS: Final = (
    Question("images", (_IMAGES, _REMOTE), images),
    Question("audio", (_AUDIO,), audio),
    Question("files", (_FILES,), files),
)
