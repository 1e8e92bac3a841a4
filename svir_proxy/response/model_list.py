"""A server's model list, whatever its shape, in the canonical one.

Seen: ``data: null`` (Ollama), a bare list (Together, GitHub), ``endpoints`` with names (Databricks), absolute paths as
ids (mlx-lm, llama.cpp, LMDeploy), an error with status 200 (LM Studio), embedding, image and speech models among the
others. There is no standard field that tells them apart; what servers do say (``type``, ``task``, ``capabilities``,
output modalities) decides, then the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from svir_proxy.response.json_text import loads, safe_integer, whole_characters

_NO_CHAT_NAME: Final = re.compile(
    r"embed|rerank|(?<![a-z])bge(?![a-z])|(?<![a-z])clip(?![a-z])|whisper|(?<![a-z])tts(?![a-z])|(?<![a-z])asr(?![a-z])"
    r"|speech|audio|image|imagen|flux|sdxl|diffusion",
    re.IGNORECASE,
)
_NO_CHAT_TYPE: Final = frozenset(
    {"embedding", "embeddings", "rerank", "reranker", "image", "audio", "transcribe", "moderation", "video", "speech"}
)
_MAX_MODELS: Final = 20_000


@dataclass(frozen=True, slots=True)
class ListedModel:
    """One model of a server.

    Attributes:
        id: The server's id, which a request has to name.
        name: What the proxy lists: the id, or the last component of a path.
        created: Unix time in seconds.
        owned_by: Whose it is, in the server's words.
        chat: Whether it is a chat model, as far as one can tell.
    """

    id: str
    name: str
    created: int
    owned_by: str
    chat: bool

    def entry(self) -> dict[str, Any]:
        """The canonical model object."""
        return model_entry(self.name, self.created, self.owned_by)


def model_entry(name: str, created: int, owned_by: str) -> dict[str, Any]:
    """A canonical model object."""
    return {"id": name, "object": "model", "created": created, "owned_by": owned_by}


def read_model_list(
    body: bytes, *, hidden: Sequence[str] = (), created: int, owned_by: str
) -> list[ListedModel] | None:
    """The models in *body*; None where it is no model list.

    *hidden* are regular expressions on ids that are no chat models; *created* (Unix seconds) and *owned_by* stand for
    what a server leaves out.
    """
    try:
        value = loads(body)
    except ValueError:
        return None
    items = _items(value)
    if items is None:
        return None
    hide = [re.compile(pattern, re.IGNORECASE) for pattern in hidden]
    models: dict[str, ListedModel] = {}
    for item in items[:_MAX_MODELS]:
        identity = _identity(item)
        if identity and identity not in models:
            details = item if isinstance(item, dict) else {}
            owner = details.get("owned_by")
            models[identity] = ListedModel(
                id=identity,
                name=identity,
                created=safe_integer(details.get("created")) or created,
                owned_by=whole_characters(owner) if isinstance(owner, str) and owner else owned_by,
                chat=_is_chat(identity, details) and not any(pattern.search(identity) for pattern in hide),
            )
    return list(_with_clean_names(models.values()))


def _items(value: Any) -> list[Any] | None:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        for key in ("data", "models", "endpoints"):
            if isinstance(value.get(key), list):
                return value[key]  # type: ignore[no-any-return]  # just checked
        if "data" in value and value["data"] is None:
            return []
    return None


def _identity(item: Any) -> str:
    if isinstance(item, str):
        return whole_characters(item)
    if isinstance(item, dict):
        for key in ("id", "name", "model"):
            if isinstance(item.get(key), str) and item[key]:
                return whole_characters(item[key])
    return ""


def _is_chat(identity: str, details: dict[str, Any]) -> bool:
    kind = details.get("type")
    if isinstance(kind, str) and (kind.lower() in _NO_CHAT_TYPE):
        return False
    task = details.get("task")
    if isinstance(task, str) and task and "chat" not in task and "/" in task:
        return False
    capabilities = details.get("capabilities")
    if isinstance(capabilities, dict):
        for key in ("chat_completion", "completion_chat"):
            if capabilities.get(key) is False:
                return False
    architecture = details.get("architecture")
    outputs = (architecture if isinstance(architecture, dict) else details).get("output_modalities")
    outputs = outputs or details.get("supported_output_modalities")
    if (
        isinstance(outputs, list)
        and outputs
        and outputs != ["text"]
        and ("text" not in outputs or "image" in outputs or "embeddings" in outputs)
    ):
        return False
    model = details.get("model")
    return not _NO_CHAT_NAME.search(identity) and not (isinstance(model, str) and _NO_CHAT_NAME.search(model))


def is_path(identity: str) -> bool:
    """Whether an id is a path on the server's machine."""
    return identity.startswith(("/", "~/", "\\\\")) or bool(re.match(r"[A-Za-z]:[\\/]", identity))


def _with_clean_names(models: Iterable[ListedModel]) -> Iterator[ListedModel]:
    """A path is listed under its last component, unless that is another model's name."""
    models = list(models)
    taken = {model.id for model in models}
    for model in models:
        if is_path(model.id):
            last = re.split(r"[\\/]", model.id.rstrip("\\/"))[-1]
            if last and last not in taken:
                taken.add(last)
                yield ListedModel(model.id, last, model.created, model.owned_by, model.chat)
                continue
        yield model
