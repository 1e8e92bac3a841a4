"""Headers that an operator adds to the requests of the proxy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from svir_proxy.settings.problems import several

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from pydantic import SecretStr

    from svir_proxy.settings.problems import Problem

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")


def check_headers(headers: Mapping[str, SecretStr], managed: Container[str]) -> None:
    """Raise one error, a line for each of *headers* that cannot be sent, or that the proxy sets itself (*managed*)."""
    problems: list[Problem] = []
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            problems.append((name.encode("unicode_escape").decode(), "is no name of a header"))
        elif name.lower() in managed:
            problems.append((name, "is set by the proxy; leave it out"))
        elif not _VALUE.fullmatch(value.get_secret_value()):
            problems.append((name, "holds a line break or a character that no header can carry; leave it out"))
    if problems:
        raise several(problems)
