"""``python -m docs.generate``: write every page that is made, under docs/servers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from docs.generate import server, tables
from svir_proxy.profiles.loader import builtin_names, load_profile

FOLDER: Final = Path(__file__).parents[1] / "servers"


def pages() -> Mapping[str, str]:
    """The text of each page, by the name of its file."""
    profiles = [load_profile(name) for name in builtin_names()]
    return {
        "README.md": tables.render(profiles),
        **{f"{profile.name}.md": server.render(profile) for profile in profiles},
    }


def main() -> int:
    """Write them."""
    for name, text in pages().items():
        (FOLDER / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
