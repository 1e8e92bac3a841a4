"""The page's files: all that it names is there, nothing comes from elsewhere, and none makes HTML out of text."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

import svir_proxy.server.inspector
from svir_proxy.server.inspector import PATH
from svir_proxy.server.inspector.files import GUARDS, TYPES, load


def text(name: str) -> str:
    return load(name).content.decode()


def test_the_package_has_these_files_and_no_other() -> None:
    shipped = {entry.name for entry in files(svir_proxy.server.inspector).joinpath("static").iterdir()}
    assert shipped == set(TYPES)


@pytest.mark.parametrize("page", ["inspector.html", "login.html"])
def test_a_page_names_what_there_is(page: str) -> None:
    named = re.findall(r'(?:src|href|action)="([^"]+)"', text(page))
    assert named
    routes = {PATH, f"{PATH}/login", f"{PATH}/logout", *(f"{PATH}/{name}" for name in TYPES)}
    assert {name for name in named if not name.startswith("#")} <= routes
    assert not re.search(r"<script(?! src=)|<style|\son\w+=|\sstyle=", text(page)), "its policy would refuse it"


@pytest.mark.parametrize("page", ["inspector.html", "login.html"])
def test_each_field_has_a_label(page: str) -> None:
    source = text(page)
    fields = re.findall(r'<(?:input|textarea)[^>]*\sid="([^"]+)"', source)
    labelled = set(re.findall(r'<label for="([^"]+)"', source))
    inside = set(re.findall(r'<label><input[^>]*\sid="([^"]+)"', source))
    assert fields
    assert set(fields) == labelled | inside


def test_nothing_comes_from_elsewhere() -> None:
    for name in TYPES:
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|//cdn", text(name)), name


def test_the_script_makes_no_html_of_text() -> None:
    dangerous = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|localStorage|sessionStorage"
    )
    assert not re.search(dangerous, text("inspector.js"))


def test_the_script_finds_what_it_looks_for() -> None:
    ids = set(re.findall(r'\sid="([^"]+)"', text("inspector.html")))
    assert set(re.findall(r'byId\("([^"$]+)"\)', text("inspector.js"))) <= ids


def test_colours_can_be_read() -> None:
    """Each colour of a text on each that may be behind it: 4.5 to 1, in both schemes."""
    schemes = re.findall(r":root \{(.*?)\}", text("inspector.css"), re.DOTALL)
    assert len(schemes) == 2
    for scheme in schemes:
        colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", scheme))
        pairs = [(front, back) for front in ("text", "soft", "accent") for back in ("back", "panel", "chosen")]
        pairs += [(kind, f"{kind}-back") for kind in ("good", "warn", "bad")]
        pairs += [
            ("text", "good-back"),
            ("text", "bad-back"),
            ("bad", "back"),
            ("on-accent", "accent"),
            ("warn", "back"),
        ]
        weak = {pair: round(_contrast(*(colours[name] for name in pair)), 2) for pair in pairs}
        assert {pair: ratio for pair, ratio in weak.items() if ratio < 4.5} == {}


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_guards_allow_own_files_alone() -> None:
    policy = dict(GUARDS)[b"content-security-policy"].decode()
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
