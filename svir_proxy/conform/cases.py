"""The corpus: recorded exchanges, what a server sent and what a client of the proxy must see.

In a clone they are the files of ``tests/cases``. A wheel has them as one archive beside this file, which
``hatch_build.py`` makes of that folder: sixteen hundred small files would cost four times as much. An installation may
have neither (the container image is one): it serves, and has nothing to replay.
"""

from __future__ import annotations

import json
import random
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

ARCHIVE: Final = Path(__file__).with_name("corpus.tar.gz")
FOLDER: Final = Path(__file__).parents[2] / "tests" / "cases"

_SUFFIX: Final = ".case.json"
_FAILURES: Final = "expected_failures.txt"

Split = Literal["whole", "random", "byte"]
SPLITS: Final[tuple[Split, ...]] = ("whole", "random", "byte")

_PROFILES: Final = {
    "llama.cpp": "llama-cpp",
    "llama-cpp": "llama-cpp",
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
    "gemini": "gemini",
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
    "github-models": "github-models",
    "ai-server": "ai-server",
    "fireworks": "fireworks",
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
        value: dict[str, Any] = self.meta["request"]
        return value

    @property
    def response(self) -> dict[str, Any]:
        """Status, headers and framing of the server's answer."""
        value: dict[str, Any] = self.meta["response"]
        return value

    @property
    def expect(self) -> dict[str, Any]:
        """What the client must see."""
        value: dict[str, Any] = self.meta["expect"]
        return value

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


class CorpusMissingError(Exception):
    """This installation came without the corpus; the message says where to get it."""


@cache
def load_cases() -> tuple[Case, ...]:
    """Every ``*.case.json`` of the corpus with the ``.body`` beside it, in the order of their keys.

    Raises:
        CorpusMissingError: There is no corpus.
    """
    return cases_of(_corpus())


@cache
def load_model_lists() -> tuple[ModelList, ...]:
    """Every model list of the corpus. Raises as `load_cases` does."""
    return model_lists_of(_corpus())


def cases_in(folder: Path) -> tuple[Case, ...]:
    """The cases below another *folder* than the corpus, such as one that ``svir-proxy record`` has filled."""
    return cases_of(_files(folder))


def model_lists_in(folder: Path) -> tuple[ModelList, ...]:
    """The model lists below another *folder*."""
    return model_lists_of(_files(folder))


def cases_of(files: dict[str, bytes]) -> tuple[Case, ...]:
    """The cases among *files*, by their paths below the corpus."""
    keys = sorted(name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX))
    return tuple(Case(key, json.loads(files[key + _SUFFIX]), files.get(f"{key}.body", b"")) for key in keys)


def model_lists_of(files: dict[str, bytes]) -> tuple[ModelList, ...]:
    """The model lists among *files*."""
    names = sorted(name for name in files if name.startswith("models/") and name.endswith(".json"))
    return tuple(ModelList(Path(name).stem, json.loads(files[name])) for name in names)


def expected_failures() -> dict[str, str]:
    """Keys of cases (``models/NAME`` for a model list) that do not pass yet, each with the reason."""
    failures = {}
    for line in _corpus()[_FAILURES].decode().splitlines():
        if line and not line.startswith("#"):
            key, _, reason = line.partition(" ")
            if not reason.strip() or key in failures:
                raise ValueError(f"expected_failures.txt: a key once, and its reason: {line!r}")
            failures[key] = reason.strip()
    return failures


@cache
def _corpus() -> dict[str, bytes]:
    if ARCHIVE.exists():
        return _archived(ARCHIVE)
    if (FOLDER / _FAILURES).is_file():
        return _files(FOLDER)
    raise CorpusMissingError("no recorded cases came with this installation; the wheel and a clone have them")


def _archived(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as opened:
        members = ((member.name, opened.extractfile(member)) for member in opened)
        return {name: file.read() for name, file in members if file is not None}


def _files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def cut(body: bytes, split: Split, seed: str) -> list[bytes]:
    """The pieces of *body*: ``whole``, ``byte`` by byte, or ``random`` ones, the same for the same *seed*."""
    if split == "whole":
        return [body]
    if split == "byte":
        return [body[at : at + 1] for at in range(len(body))]
    sizes = random.Random(seed)  # noqa: S311 - it must repeat itself, not surprise
    pieces, at = [], 0
    while at < len(body):
        size = sizes.choice((1, 2, 3, 7, 20, 64, 333))
        pieces.append(body[at : at + size])
        at += size
    return pieces
