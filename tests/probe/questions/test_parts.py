from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import pytest

from svir_proxy.probe.questions.opening import OPENING
from svir_proxy.probe.questions.parts import ABOUT_PARTS, LOOK, red_square, silence
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


@pytest.mark.parametrize(("says", "found"), [("Red.", "kept"), ("A cat.", "ignored")])
@pytest.mark.parametrize("blind", ["I see no image.", "Red."])
def test_an_image_that_is_not_counted_and_seen_all_the_same(says: str, found: str, blind: str) -> None:
    class Uncounted(Simulated):
        def _part(self, part: Mapping[str, Any]) -> bool:
            return False

        def _say(self, body: Mapping[str, Any], visible: list[str], tools: list[str]) -> tuple[str, list[str]]:
            if LOOK in str(body):
                return (says if "image_url" in str(body) else blind), []
            return super()._say(body, visible, tools)

    guessed = says == blind
    assert hold(Uncounted(), [*OPENING, *ABOUT_PARTS])["images"].value == ("ignored" if guessed else found)


def test_the_smallest_media_are_what_they_say() -> None:
    png = base64.b64decode(red_square().partition(",")[2])
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    start = png.index(b"IDAT") + 4
    pixels = zlib.decompressobj().decompress(png[start:])
    assert len(pixels) == 64 * (1 + 3 * 64)
    wav = base64.b64decode(silence())
    assert (wav[:4], wav[8:12], len(wav)) == (b"RIFF", b"WAVE", 44 + 3200)
