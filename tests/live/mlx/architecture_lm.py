"""The scripted model as mlx-lm wants an architecture to be."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
from mlx import nn
from mlx_lm.models.base import BaseModelArgs
from mlx_lm.models.cache import KVCache

from tests.live.mlx.following import Following


@dataclass
class ModelArgs(BaseModelArgs):
    """What is needed of `config.json`."""

    model_type: str
    folder: str


class Model(nn.Module):
    """No layers, and the cache of one."""

    def __init__(self, args: ModelArgs) -> None:
        super().__init__()
        self.model_type = args.model_type
        self.layers: list[nn.Module] = []
        self.zero = mx.zeros((1,))
        self._following = Following(args.folder)

    def make_cache(self) -> list[KVCache]:
        return [KVCache()]

    def __call__(self, inputs: mx.array, cache: list[KVCache]) -> mx.array:
        return self._following.logits(inputs, cache[0]) + self.zero
