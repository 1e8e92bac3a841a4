"""Pages in Markdown as the tests read them: blocks of code, tables, headings, links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

_BLOCK: Final = re.compile(r"^( *)```([\w-]+)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_WHOLE_BLOCK: Final = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its path below the repository, and its text."""

    name: str
    text: str

    @property
    def path(self) -> Path:
        """The file."""
        return ROOT / self.name

    def blocks(self, language: str) -> list[str]:
        """The blocks of code in one language, in order."""
        return [text for _, name, text in _BLOCK.findall(self.text) if name == language]

    def block(self, language: str, holds: str = "") -> str:
        """The only block of a language that *holds* a text."""
        (found,) = (text for text in self.blocks(language) if holds in text)
        return found

    def rows(self, header: str) -> list[list[str]]:
        """The cells of the table whose first line begins with *header*."""
        lines = self.text[self.text.index(header) :].splitlines()
        body = lines[2 : lines.index("")] if "" in lines else lines[2:]
        return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in body if row.startswith("|")]

    @property
    def prose(self) -> str:
        """The text without blocks of code."""
        return _WHOLE_BLOCK.sub("", self.text)

    @property
    def anchors(self) -> set[str]:
        """What a link may name behind ``#``: the headings, as they are shown on the web."""
        headings = re.findall(r"^#+ (.+)$", self.prose, re.MULTILINE)
        return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def page(name: str) -> Page:
    """The page at a path below the repository."""
    return Page(name, (ROOT / name).read_text("utf-8"))


def pages(*patterns: str) -> list[str]:
    """The names of the pages at *patterns*, in order."""
    return sorted(path.relative_to(ROOT).as_posix() for pattern in patterns for path in ROOT.glob(pattern))


EVERY: Final = pages(
    "*.md", "docs/**/*.md", "tests/**/*.md", "benchmarks/**/*.md", "fuzz/**/*.md", "reliability/**/*.md"
)
"""Every page of the repository."""
