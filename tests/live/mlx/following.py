"""What the scripted model says next, inside the server that runs it: the part that its architectures share.

Nothing but the history of tokens decides, so batches, prompt caches and repeats work as with any model. The history is
where a model keeps it: the keys in the cache are the tokens' ids.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import mlx.core as mx
from tokenizers import Tokenizer

CERTAIN = 20.0
"""The logit of the next token; all others have 0."""


class Following:
    """Looks up what follows in the model's folder, and writes down there what it was asked, in `told.jsonl`.

    That has a line for each token: ``script``, ``said`` (how many tokens before), and with the first token the
    ``prompt``.
    """

    def __init__(self, folder: str) -> None:
        path = Path(folder)
        self._tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        self._size: int = self._tokenizer.get_vocab_size()
        self._scripts: dict[str, dict[str, Any]] = json.loads((path / "scripts.json").read_text(encoding="utf-8"))
        self._phrases: dict[str, str] = json.loads((path / "phrases.json").read_text(encoding="utf-8"))
        self._end = self._encode("<|im_end|>")
        self._turn = self._encode("<|im_start|>assistant\n")
        self._told = path / "told.jsonl"

    def logits(self, inputs: mx.array, cache: Any) -> mx.array:
        """The logits after *inputs*, token ids of the shape (batch, length): (batch, length, vocabulary)."""
        ids = inputs.astype(mx.float32)[:, None, :, None]
        keys, _ = cache.update_and_fetch(ids, ids)
        nothing = mx.zeros((*inputs.shape, self._size))
        if inputs.shape[1] > 1:  # a prompt but for its last token: nobody asks what follows
            return nothing
        histories = keys[:, 0, :, 0].astype(mx.int32).tolist()
        following = mx.array([self._next(history) for history in histories])
        return nothing + CERTAIN * (mx.arange(self._size) == following[:, None])[:, None, :]

    def _next(self, history: list[int]) -> int:
        starts = (at for at in range(len(history), 0, -1) if history[at - len(self._turn) : at] == self._turn)
        start = next(starts, None)
        if start is None:  # the server warms up
            return self._end[0]
        prompt: str = self._tokenizer.decode(history[:start], skip_special_tokens=False)
        name, after = self._asked(prompt)
        script = self._scripts[name]
        said = len(history) - start  # a tag that the template opened is said already
        self._tell({"script": name, "said": said, **({} if said else {"prompt": prompt})})
        if script["fails_after"] is not None and said >= script["fails_after"]:
            raise RuntimeError("[METAL] Command buffer execution failed: Insufficient Memory")
        texts = script["texts"]
        text = self._encode(texts[min(len(re.findall(r"<\|im_start\|>user\n", after)), len(texts) - 1)])
        if script["endless"]:
            return text[said % len(text)]
        return [*text, *self._end][min(said, len(text))]

    def _asked(self, prompt: str) -> tuple[str, str]:
        """The script that *prompt* starts, and what stands behind its last trigger."""
        before, _, after = prompt.rpartition("[[s:")
        if before:
            return after.partition("]]")[0], after
        at, phrase = max(((prompt.rfind(phrase), phrase) for phrase in self._phrases), default=(-1, ""))
        return (self._phrases[phrase], prompt[at:]) if at >= 0 else ("default", after)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _tell(self, line: dict[str, Any]) -> None:
        with self._told.open("a", encoding="utf-8") as told:
            told.write(json.dumps(line) + "\n")
