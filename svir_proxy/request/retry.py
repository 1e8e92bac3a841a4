"""May a rejected request go out once more, and how?

A rejection (400 or 422) before any output teaches something about the server: a fact of its profile was wrong, for
this model at least. `learn_from` says which; with `apply_learned` the client's request is rewritten anew, so that a
second try is made by the same decision tables as the first, and so is every request after it. Nothing was generated,
so the second try costs nothing but the first.

An error that names a field, or a fact, in whatever words, teaches that one (`rejections`, `named_fields`). An error
that names nothing at all costs every optional field that the server is not known to keep. An error about anything else
- the value of a field, an image, the length of the prompt, a flag the server was started without - teaches nothing: it
is the client's to see.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from svir_proxy.client_request import Body
from svir_proxy.errors import ProxyError
from svir_proxy.profiles.schema import Profile
from svir_proxy.request.named_fields import Said
from svir_proxy.request.rejections import READERS, Facts
from svir_proxy.request.rewrites.optional_fields import DEMANDS, is_foreign

_CURABLE: Final = frozenset({"invalid_request", "unsupported_parameter"})
_SETUP: Final = r"\s--[a-z]{2}"
"""A command line's flag: the server has to be started in another way."""
_ABOUT_SOMETHING: Final = (
    r"\b(?:roles?|templates?|schemas?|grammars?|tools?|functions?|contents?|messages?|models?|prompts?|tokens?|images?"
    r"|audio|files?|urls?|conversation)\b"
)
_FIELD: Final = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)
"""A field whose name may be remembered: clients choose the names of theirs."""
_MOST_FIELDS: Final = 100


def learn_from(error: ProxyError, body: Body, profile: Profile) -> dict[str, str | bool | None]:
    """What *error*, the answer to *body*, shows to be otherwise than *profile* says: values by the path of the fact.

    Empty: nothing, and a second try would fail as the first did.
    """
    if error.kind == "file_not_supported" and profile.request.files != "rejected":
        return {"request.files": "rejected"}  # a text file can go as text
    if error.kind not in _CURABLE:
        return {}
    said = Said(error)
    if said.says(_SETUP):
        return {}
    for read in READERS:
        news = {path: value for path, value in read(said, body).items() if _differs(profile, path, value)}
        if news:
            return news
    return {f"request.optional_fields.{name}": "rejected" for name in _fields(said, error, body, profile)}


def apply_learned(profile: Profile, facts: Facts) -> Profile:
    """*profile* with the values of *facts*, by the path of the fact; the same object where there are none."""
    for path, value in facts.items():
        profile = _with(profile, path.split("."), value)
    return profile


def _fields(said: Said, error: ProxyError, body: Body, profile: Profile) -> list[str]:
    """The fields of *body* to leave out."""
    facts = profile.request
    sent = [name for name in body if _FIELD.fullmatch(name)][:_MOST_FIELDS]
    candidates = [name for name in sent if name not in DEMANDS]
    named = [name for name in sent if said.names(name)]
    if named:
        return [
            name
            for name in named
            if name in candidates
            and name != "reasoning_effort"  # its reader knows its values from the field
            and (said.refuses or (name in facts.optional_fields and not said.blames_value))
        ]
    if error.param or said.says(_ABOUT_SOMETHING):
        return []
    return [
        name
        for name in candidates
        if facts.optional_fields.get(name, facts.unknown_fields if is_foreign(name) else "kept") == "unknown"
    ]


def _differs(profile: Profile, path: str, value: str | bool | None) -> bool:
    try:
        return bool(profile.fact(path) != value)
    except KeyError:
        return True


def _with(model: Any, path: list[str], value: Any) -> Any:
    """*model*, a part of a profile, with *value* at *path*."""
    if not path:
        return value
    name, *rest = path
    if isinstance(model, BaseModel):
        return model.model_copy(update={name: _with(getattr(model, name), rest, value)})
    assert isinstance(model, Mapping)
    return {**model, name: _with(model.get(name), rest, value)}
