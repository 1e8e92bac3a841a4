"""May a rejected request go out once more, and without what?

Only for a rejection (400 or 422) before any output, only once, and only without fields an answer can do without: the
one the error names, wherever it names it (``param``, ``loc``, ``#/field``, quoted, in camel case), else all that the
server is not known to keep. Nothing was generated, so a second try costs nothing but the first.
"""

from __future__ import annotations

import re
from typing import Final

from svir_proxy.client_request import Body
from svir_proxy.errors import ProxyError
from svir_proxy.profiles.schema import Profile
from svir_proxy.request.context import without

_CURABLE: Final = frozenset({"invalid_request", "unsupported_parameter"})


def plan_retry(body: Body, error: ProxyError, profile: Profile) -> frozenset[str]:
    """The fields to leave out of *body* for a second try; empty: there is none."""
    if error.kind not in _CURABLE:
        return frozenset()
    facts = profile.request.optional_fields
    optional = {name for name in body if name in facts}
    named = {name for name in optional if _names(error, name)}
    if named:
        return frozenset(named)
    if _names_any(error, body):
        return frozenset()  # about something else
    return frozenset(name for name in optional if facts[name] == "unknown")


def without_fields(body: Body, fields: frozenset[str]) -> Body:
    """*body* without *fields*, and without what only makes sense beside them."""
    if "logprobs" in fields:
        fields |= {"top_logprobs"}
    return without(body, *fields)


def _names(error: ProxyError, field: str) -> bool:
    if error.param is not None and re.split(r"[.\[/]", error.param.removeprefix("body."), maxsplit=1)[0] == field:
        return True
    camel = re.sub(r"_(\w)", lambda found: found[1].upper(), field)
    return (
        re.search(rf"(?<![A-Za-z0-9_.])(?:{field}|{camel})(?![A-Za-z0-9_])", error.message) is not None
        if ("_" in field)
        else re.search(rf"['\"`/.]{field}['\"`\s,:)]", error.message) is not None
    )


def _names_any(error: ProxyError, body: Body) -> bool:
    """Whether the error is about a field of the body that cannot be left out."""
    if error.param:
        return True
    return any(_names(error, name) for name in body)
