"""Writes the folder of a model that says what a test wants, so that a real MLX server can be made to give any answer.

Nothing is trained: the tokenizer has one token for each byte and each tag, the weights are one zero, and the
architecture, which the servers load from the folder, looks up in the scripts what comes next. What they make of it all
is their own: the template's prompt, the parsing of reasoning and of calls, batches, the stream.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.live.mlx.scripts import Script

HERE: Final = Path(__file__).parent
CONTEXT: Final = 32768
END: Final = "<|im_end|>"
_SPECIAL: Final = ("<|endoftext|>", "<|im_start|>", END)
_TAGS: Final = ("<think>", "</think>", "<tool_call>", "</tool_call>")
"""Tokens of their own, as in Qwen's models, that are part of the text nevertheless."""


def write_model(folder: Path, scripts: Mapping[str, Script], architecture: str, phrases: Mapping[str, str]) -> None:
    """Fills *folder* with a model that says *scripts*; *architecture* is the module of its code, for the server.

    *phrases* start a script as ``[[s:NAME]]`` does: each with the script's name.
    """
    # Here, because they come with the servers.
    from safetensors.numpy import save_file
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: id_ for id_, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([*_SPECIAL])
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in _TAGS])
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file({"zero": np.zeros(1, np.float32)}, str(folder / "model.safetensors"), metadata={"format": "mlx"})
    (folder / "architecture.py").write_text(f"from {architecture} import *\n", encoding="utf-8")
    shutil.copy(HERE / "template.jinja", folder / "chat_template.jinja")
    _write(folder / "phrases.json", dict(phrases))
    _write(folder / "scripts.json", {name: asdict(script) for name, script in scripts.items()})
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END,
            "pad_token": _SPECIAL[0],
            "model_max_length": CONTEXT,
            "clean_up_tokenization_spaces": False,
        },
    )
    _write(
        folder / "config.json",
        {
            "model_type": "llama",  # one that the library of tokenizers knows
            "model_file": "architecture.py",
            "folder": str(folder),
            "vocab_size": tokenizer.get_vocab_size(),
            "eos_token_id": tokenizer.token_to_id(END),
            "max_position_embeddings": CONTEXT,
        },
    )


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
