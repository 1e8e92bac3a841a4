"""Writes a model that says what a test wants, so that a real llama.cpp can be made to give any answer.

The file is an ordinary llama GGUF of one layer, filled in by numpy: nothing is trained. Each piece of text has a random
unit vector, its *code*. Three facts make the model speak:

* The embedding of a piece is the code of the piece that follows it, and the output layer scores each piece by its own
  code. So a piece is followed by its successor, whatever the temperature.
* ``[[s:NAME]]`` in a prompt starts the script NAME. It is one token; its embedding is the code of the script's first
  piece and a mark in dimension `MARK`. The attention head of every token looks for that mark and brings the first
  piece's code to the end of the prompt. Of several triggers the one whose script is declared last wins: its mark is the
  strongest. So a second turn can be told apart from the first.
* Prompt text has no successor: pieces have three or more characters, so the tokenizer, which merges two neighbours at a
  time, reads a prompt as single bytes. Where it finds no trigger, dimension `CONST`, set in every token, decides: the
  output layer turns it into the script `DEFAULT`.

A piece has one successor, so it occurs only once in all scripts; `_cut` sees to that, and so cuts tags and names at odd
places, as real tokenizers do. Where a grammar forbids the next piece, or the server puts in text of its own, the script
begins again; unless `Otherwise` says what the model would rather say then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import gguf
import numpy as np
from gguf import TokenType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

Script: TypeAlias = "str | tuple[str | bytes, ...]"
"""A text, cut where it suits; or its exact pieces, where a `bytes` is said one byte a token."""

DEFAULT: Final = "default"
LOOP: Final = "loop"
"""The script that never ends. All others finish with the end of the turn."""

WIDTH: Final = 256
CONST: Final = WIDTH - 2
MARK: Final = WIDTH - 1
SLOWEST: Final = WIDTH - 2
"""The first dimension of the rotary pair that hardly turns: attention in it does not depend on the distance."""
CONTEXT: Final = 131072
MIN_PIECE: Final = 3


@dataclass(frozen=True)
class Otherwise:
    """The scripts that follow in place of one where a grammar forbids its beginning, or its end."""

    beginning: str
    end: str


def write_model(
    path: Path,
    scripts: Mapping[str, Script],
    chat_template: str,
    phrases: Mapping[str, str] | None = None,
    otherwise: Mapping[str, Otherwise] | None = None,
) -> None:
    """Writes to *path* a GGUF of a few megabytes that says *scripts*; the same bytes for the same arguments.

    *phrases* start a script as ``[[s:NAME]]`` does: each with the script's name. *otherwise*: by script.
    """
    vocabulary = _Vocabulary(scripts, phrases or {}, otherwise or {})
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("scripted")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(WIDTH)
    writer.add_rope_freq_base(1e12)
    writer.add_vocab_size(len(vocabulary.tokens))
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_scores([0.0] * len(vocabulary.tokens))
    writer.add_token_types(vocabulary.types)
    writer.add_unk_token_id(vocabulary.unknown)
    writer.add_bos_token_id(vocabulary.begin)
    writer.add_eos_token_id(vocabulary.end)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(chat_template)
    for name, tensor in _tensors(vocabulary):
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class _Vocabulary:
    """The tokens, which of them follows which, and where each script begins."""

    def __init__(
        self, scripts: Mapping[str, Script], phrases: Mapping[str, str], otherwise: Mapping[str, Otherwise]
    ) -> None:
        self.tokens: list[str] = []
        self.types: list[TokenType] = []
        self.successor: dict[int, int] = {}
        self.first: dict[str, int] = {}
        self.trigger: list[tuple[str, int]] = []
        self.otherwise = otherwise
        last: dict[str, int] = {}
        self.unknown = self._add("<unk>", TokenType.UNKNOWN)
        self.begin = self._add("<s>", TokenType.CONTROL)
        self._bytes = [self._add(f"<0x{value:02X}>", TokenType.BYTE) for value in range(256)]
        self._add("<|im_start|>", TokenType.CONTROL)
        self.end = self._add("<|im_end|>", TokenType.CONTROL)
        taken = {piece for script in scripts.values() if isinstance(script, tuple) for piece in script}
        for name, script in scripts.items():
            said = list(self._say(_cut(script, taken) if isinstance(script, str) else script))
            self.first[name], last[name] = said[0], said[-1]
            for token, following in zip(said, [*said[1:], said[0] if name == LOOP else self.end], strict=True):
                if self.successor.setdefault(token, following) != following:
                    raise ValueError(f"script {name}: {self.tokens[token]!r} is followed by something else already")
        for name in scripts:
            self.trigger.append((name, self._add(f"[[s:{name}]]", TokenType.USER_DEFINED)))
        for phrase, name in phrases.items():
            self.trigger.append((name, self._add(phrase, TokenType.USER_DEFINED)))
        self.after_the_end = {last[name]: self.first[instead.end] for name, instead in otherwise.items()}

    def _add(self, text: str, kind: TokenType) -> int:
        self.tokens.append(text)
        self.types.append(kind)
        return len(self.tokens) - 1

    def _say(self, pieces: tuple[str | bytes, ...] | list[str]) -> Iterator[int]:
        for piece in pieces:
            if isinstance(piece, bytes):
                yield from (self._bytes[value] for value in piece)
            else:
                yield self._add(piece.replace(" ", "\u2581"), TokenType.NORMAL)


def _cut(text: str, taken: set[str | bytes]) -> list[str]:
    """Cuts *text* into pieces that no script has used, each as short as possible, and marks them as taken."""
    pieces: list[str] = []
    while text:
        size = next((n for n in range(MIN_PIECE, len(text) - MIN_PIECE + 1) if text[:n] not in taken), len(text))
        piece, text = text[:size], text[size:]
        while piece in taken:  # the end of the text: what is left is too short to be new
            piece = pieces.pop() + piece
        taken.add(piece)
        pieces.append(piece)
    return pieces


def _tensors(vocabulary: _Vocabulary) -> Iterator[tuple[str, NDArray[np.float16] | NDArray[np.float32]]]:
    """The weights. The sizes that are not 0 or 1 only have to be decisive, and to fit 16 bits after normalization."""
    code = np.random.default_rng(7).standard_normal((len(vocabulary.tokens), WIDTH))
    code[:, [CONST, MARK]] = 0
    code /= np.linalg.norm(code, axis=1, keepdims=True)

    embedding = np.zeros_like(code)
    embedding[:, CONST] = 0.5
    for token, following in vocabulary.successor.items():
        embedding[token] += 4 * code[following]
    for token, following in vocabulary.after_the_end.items():
        embedding[token] += 2 * code[following]
    for rank, (name, token) in enumerate(vocabulary.trigger):
        embedding[token] += code[vocabulary.first[name]]
        if name in vocabulary.otherwise:
            embedding[token] += 0.5 * code[vocabulary.first[vocabulary.otherwise[name].beginning]]
        embedding[token, MARK] = 1 + rank / 16

    output = 3 * code
    output[vocabulary.first[DEFAULT], CONST] = 1.5

    query, key, value = np.zeros((WIDTH, WIDTH)), np.zeros((WIDTH, WIDTH)), np.eye(WIDTH)
    query[SLOWEST, CONST] = key[SLOWEST, MARK] = 60
    value[[CONST, MARK], [CONST, MARK]] = 0

    for name, matrix in {
        "token_embd": embedding,
        "output": output,
        "blk.0.attn_q": query,
        "blk.0.attn_k": key,
        "blk.0.attn_v": value,
        "blk.0.attn_output": 0.1 * np.eye(WIDTH),
        "blk.0.ffn_gate": np.zeros((32, WIDTH)),
        "blk.0.ffn_up": np.zeros((32, WIDTH)),
        "blk.0.ffn_down": np.zeros((WIDTH, 32)),
    }.items():
        yield f"{name}.weight", matrix.astype(np.float16)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        yield f"{name}.weight", np.ones(WIDTH, np.float32)
