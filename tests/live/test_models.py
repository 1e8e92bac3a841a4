"""The model list of a real llama.cpp."""

from __future__ import annotations

import openai
import pytest

pytestmark = pytest.mark.live


def test_lists_the_model(client: openai.OpenAI) -> None:
    (model,) = client.models.list().data
    assert (model.id, model.object) == ("scripted", "model")
    assert model.model_extra == {}
    assert client.models.retrieve("scripted") == model


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("missing")
    assert caught.value.code == "model_not_found"
