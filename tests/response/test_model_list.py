"""Any server's model list in the canonical shape."""

from __future__ import annotations

import json

import pytest

from svir_proxy.response.model_list import ListedModel, is_path, model_entry, read_model_list


def read(value, hidden=()):
    return read_model_list(json.dumps(value).encode(), hidden=hidden, created=7, owned_by="them")


def ids(models):
    return [model.id for model in models]


SHAPES = {
    "OpenAI": {"object": "list", "data": [{"id": "a"}, {"id": "b"}]},
    "a bare list (Together, GitHub)": [{"id": "a"}, {"id": "b"}],
    "names only": ["a", "b"],
    "models": {"models": [{"name": "a"}, {"model": "b"}]},
    "endpoints (Databricks)": {"endpoints": [{"name": "a"}, {"name": "b"}]},
    "twice in two shapes (llama.cpp)": {"models": [{"name": "x"}], "data": [{"id": "a"}, {"id": "b"}]},
    "the same model twice": {"data": [{"id": "a"}, {"id": "b"}, {"id": "a", "owned_by": "x"}]},
    "entries that are none": {"data": [{"id": "a"}, None, 7, {}, "", {"id": ""}, {"id": 7}, {"id": "b"}]},
}

NO_LISTS = {
    "no JSON": b"<html>",
    "a number": b"7",
    "null": b"null",
    "an error with status 200 (LM Studio)": b'{"error": "Unexpected endpoint"}',
    "data that is no list": b'{"data": {"id": "a"}}',
}

CHAT = {
    # what a server says of a model: whether it is a chat model
    "nothing": ({}, True),
    "a type": ({"type": "llm"}, True),
    "a type with eyes (LM Studio)": ({"type": "vlm"}, True),
    "embeddings by type": ({"type": "embeddings"}, False),
    "reranking by type": ({"type": "RERANKER"}, False),
    "a type that is none": ({"type": ["embedding"]}, True),
    "a task": ({"task": "llm/v1/chat"}, True),
    "another task": ({"task": "llm/v1/embeddings"}, False),
    "a task in one word": ({"task": "generate"}, True),
    "capabilities (Azure)": ({"capabilities": {"chat_completion": True}}, True),
    "no chat among them": ({"capabilities": {"chat_completion": False}}, False),
    "no chat among them (Mistral)": ({"capabilities": {"completion_chat": False}}, False),
    "capabilities as a list": ({"capabilities": ["completion"]}, True),
    "text out": ({"architecture": {"output_modalities": ["text"]}}, True),
    "images out": ({"architecture": {"output_modalities": ["image"]}}, False),
    "text and images out": ({"architecture": {"output_modalities": ["text", "image"]}}, False),
    "text and audio out": ({"architecture": {"output_modalities": ["text", "audio"]}}, True),
    "speech out": ({"output_modalities": ["audio"]}, False),
    "embeddings out": ({"supported_output_modalities": ["embeddings"]}, False),
    "nothing known of what comes out": ({"architecture": {"output_modalities": []}}, True),
    "what it is made from": ({"model": "bge-m3"}, False),
}

NAMES = {
    True: "qwen3.8-27b llama-3 gpt-6-luna clippy-7b rabbge gtts2 asrah vision-chat",
    False: "text-embed-3 bge-m3 a/reranker clip-vit whisper-1 tts-1 qwen-asr speech-2 gpt-audio Qwen-Image imagen-4 FLUX.1"
    " sdxl-turbo stable-diffusion",
}

PATHS = {
    # ids: the names they are listed under
    "a path": (["/models/tide-7b"], ["tide-7b"]),
    "its last sign is no name": (["/models/tide-7b/"], ["tide-7b"]),
    "at home": (["~/tide-7b"], ["tide-7b"]),
    "on Windows": (["C:\\models\\tide-7b.gguf", "\\\\host\\tide-8b"], ["tide-7b.gguf", "tide-8b"]),
    "an organization is no path": (["org/tide-7b"], ["org/tide-7b"]),
    "another model has the name": (["/models/tide-7b", "tide-7b"], ["/models/tide-7b", "tide-7b"]),
    "two paths, one name": (["/a/tide-7b", "/b/tide-7b"], ["tide-7b", "/b/tide-7b"]),
    "a path of nothing": (["/"], ["/"]),
}


@pytest.mark.parametrize("value", SHAPES.values(), ids=SHAPES)
def test_shapes(value):
    assert ids(read(value)) == ["a", "b"]


@pytest.mark.parametrize("value", [{"data": None}, {"data": []}, []], ids=repr)
def test_an_empty_list(value):
    assert read(value) == []


@pytest.mark.parametrize("body", NO_LISTS.values(), ids=NO_LISTS)
def test_what_is_no_list(body):
    assert read_model_list(body, created=7, owned_by="them") is None


@pytest.mark.parametrize(("details", "chat"), CHAT.values(), ids=CHAT)
def test_chat_models_by_what_the_server_says(details, chat):
    (model,) = read([{"id": "tide-7b", **details}])
    assert model.chat is chat


@pytest.mark.parametrize("chat", NAMES)
def test_chat_models_by_name(chat):
    names = NAMES[chat].split()
    assert {model.id: model.chat for model in read(names)} == dict.fromkeys(names, chat)


def test_chat_models_by_the_profile():
    models = read(["tide-7b", "tide-7b-DRAFT"], hidden=["-draft$"])
    assert [model.chat for model in models] == [True, False]


@pytest.mark.parametrize(("given", "names"), PATHS.values(), ids=PATHS)
def test_names(given, names):
    models = read(given)
    assert ids(models) == given
    assert [model.name for model in models] == names
    assert [is_path(one) for one in given] == ["org/" not in one and not one.startswith("tide") for one in given]


def test_entries():
    whole, bare, odd = read(
        [
            {"id": "/m/a", "created": 5, "owned_by": "me", "root": "x"},
            {"id": "b\ud83d"},
            {"id": "c", "created": "now", "owned_by": 7},
        ]
    )
    assert whole == ListedModel("/m/a", "a", 5, "me", chat=True)
    assert whole.entry() == {"id": "a", "object": "model", "created": 5, "owned_by": "me"}
    assert bare.entry() == model_entry("b\ufffd", 7, "them")
    assert odd.entry() == model_entry("c", 7, "them")


def test_a_list_without_end_is_cut():
    assert len(read([f"m{number}" for number in range(20_001)])) == 20_000
