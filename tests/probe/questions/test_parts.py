from __future__ import annotations

import base64
import zlib

import pytest

from svir_proxy.probe.questions.opening import OPENING
from svir_proxy.probe.questions.parts import ABOUT_PARTS, red_square, silence
from tests.probe.simulated import Simulated
from tests.probe.support import hold


@pytest.mark.parametrize(
    ("images", "remote", "counts", "found", "found_remote"),
    [
        ("kept", "kept", True, "kept", "unknown"),
        ("kept", "rejected", True, "kept", "rejected"),
        ("kept", "rejected", False, "kept", "rejected"),
        ("ignored", "rejected", True, "ignored", "unknown"),
        ("ignored", "kept", False, "unknown", "unknown"),
        ("rejected", "rejected", True, "rejected", "unknown"),
    ],
)
def test_images(images: str, remote: str, *, counts: bool, found: str, found_remote: str) -> None:
    server = Simulated({"images": images, "remote_images": remote}, counts=counts)
    held = hold(server, [*OPENING, *ABOUT_PARTS])
    assert (held["images"].value, held["remote_images"].value) == (found, found_remote)


def test_the_smallest_media_are_what_they_say() -> None:
    png = base64.b64decode(red_square().partition(",")[2])
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    start = png.index(b"IDAT") + 4
    pixels = zlib.decompressobj().decompress(png[start:])
    assert len(pixels) == 64 * (1 + 3 * 64)
    wav = base64.b64decode(silence())
    assert (wav[:4], wav[8:12], len(wav)) == (b"RIFF", b"WAVE", 44 + 3200)
