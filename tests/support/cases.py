"""The recorded exchanges in ``tests/cases``: what a server sent, and what a client of the proxy must see."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

FOLDER: Final = Path(__file__).parents[1] / "cases"

Split = Literal["whole", "random", "byte"]
SPLITS: Final[tuple[Split, ...]] = ("whole", "random", "byte")

_PROFILES: Final = {
    "llama.cpp": "llama-cpp",
    "llamacpp": "llama-cpp",
    "vllm": "vllm",
    "mlx-lm": "mlx-lm",
    "mlx-vlm": "mlx-vlm",
    "lm studio": "lm-studio",
    "lm-studio": "lm-studio",
    "lmstudio": "lm-studio",
    "azure": "azure",
    "azure openai": "azure",
    "openai": "openai",
    "ollama": "ollama",
    "sglang": "sglang",
    "openrouter": "openrouter",
    "deepseek": "deepseek",
    "groq": "groq",
    "mistral": "mistral",
    "xai": "xai",
    "gemini (openai endpoint)": "gemini",
    "cerebras": "cerebras",
    "together": "together",
    "tgi": "tgi",
    "tabbyapi": "tabbyapi",
    "localai": "localai",
    "lmdeploy": "lmdeploy",
    "koboldcpp": "koboldcpp",
    "text-generation-webui": "text-generation-webui",
    "github models": "github-models",
    "perplexity": "perplexity",
    "llama-cpp-python": "llama-cpp-python",
    "lemonade": "lemonade",
    "openrouter (anthropic)": "openrouter",
    "openrouter (deepseek v4)": "openrouter",
}


def profile_of(server: str) -> str:
    """The profile that stands for a server's name; ``generic`` for servers without one of their own."""
    return _PROFILES.get(server.lower(), "generic")


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One recorded exchange.

    Attributes:
        key: Its path below the folder, without suffix.
        meta: The case file, see the folder's README.
        body: The bytes the server sent as the HTTP body.
    """

    key: str
    meta: dict[str, Any]
    body: bytes

    @property
    def request(self) -> dict[str, Any]:
        """What the client asks."""
        return self.meta["request"]

    @property
    def response(self) -> dict[str, Any]:
        """Status, headers and framing of the server's answer."""
        return self.meta["response"]

    @property
    def expect(self) -> dict[str, Any]:
        """What the client must see."""
        return self.meta["expect"]

    @property
    def streamed(self) -> bool:
        """Whether the client asks for a stream."""
        return bool(self.request.get("stream"))

    @property
    def profile(self) -> str:
        """The profile the case runs under: its own, else its server's."""
        return (self.meta.get("backend") or {}).get("profile") or profile_of(self.meta["server"])

    @property
    def overrides(self) -> dict[str, Any]:
        """Facts of the profile that differ for this case."""
        return {key: value for key, value in (self.meta.get("backend") or {}).items() if key != "profile"}


@dataclass(frozen=True, slots=True, eq=False)
class ModelList:
    """A recorded answer to ``GET /v1/models``: its file's name and content."""

    key: str
    meta: dict[str, Any]


@cache
def load_cases() -> tuple[Case, ...]:
    """Every ``*.case.json`` with the ``.body`` beside it, in the order of their keys."""
    cases = []
    for path in FOLDER.rglob("*.case.json"):
        key = path.relative_to(FOLDER).as_posix().removesuffix(".case.json")
        body = FOLDER / f"{key}.body"
        cases.append(Case(key, json.loads(path.read_text("utf-8")), body.read_bytes() if body.exists() else b""))
    return tuple(sorted(cases, key=lambda case: case.key))


@cache
def load_model_lists() -> tuple[ModelList, ...]:
    """Every file in ``models/``."""
    return tuple(
        ModelList(path.stem, json.loads(path.read_text("utf-8"))) for path in sorted(FOLDER.glob("models/*.json"))
    )


def expected_failures() -> dict[str, str]:
    """Keys of cases (``models/NAME`` for a model list) that do not pass yet, each with the reason."""
    failures = {}
    for line in (FOLDER / "expected_failures.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            key, _, reason = line.partition(" ")
            if not reason.strip() or key in failures:
                raise ValueError(f"expected_failures.txt: a key once, and its reason: {line!r}")
            failures[key] = reason.strip()
    return failures


def cut(body: bytes, split: Split, seed: str) -> list[bytes]:
    """The pieces of *body*: ``whole``, ``byte`` by byte, or ``random`` ones, the same for the same *seed*."""
    if split == "whole":
        return [body]
    if split == "byte":
        return [body[at : at + 1] for at in range(len(body))]
    sizes = random.Random(seed)
    pieces, at = [], 0
    while at < len(body):
        size = sizes.choice((1, 2, 3, 7, 20, 64, 333))
        pieces.append(body[at : at + size])
        at += size
    return pieces
