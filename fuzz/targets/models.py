"""A model list: a canonical one, whatever the server's looks like, or none."""

from __future__ import annotations

import json
from collections.abc import Iterator

from fuzz.controls import Controls, chosen
from fuzz.targets.circumstances import PROFILES
from svir_proxy.conform import dialect
from svir_proxy.conform.cases import load_model_lists
from svir_proxy.response.json_text import dumps
from svir_proxy.response.model_list import read_model_list


def check(data: bytes) -> str:
    """Raises where *data* breaks the reading of lists; otherwise whether it is one."""
    controls, body = Controls.split(data)
    profile = controls.pick(PROFILES)
    models = read_model_list(body, hidden=profile.models.hidden, created=1, owned_by="b")
    if models is None:
        return "no list"
    assert len({model.id for model in models}) == len(models)
    entries = dumps({"object": "list", "data": [model.entry() for model in models]})
    found = dialect.check_models(entries)
    assert not found, "\n".join(found)
    for model in json.loads(entries)["data"]:
        one = dialect.check_model(dumps(model))
        assert not one, "\n".join(one)
    return "list"


def seeds() -> Iterator[bytes]:
    """The recorded lists."""
    for number, listed in enumerate(load_model_lists()):
        yield chosen(number % len(PROFILES)) + listed.meta["body"].encode()
