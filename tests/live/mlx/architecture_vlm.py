"""The scripted model as mlx-vlm wants an architecture to be: a text model, whose embeddings are the tokens' ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_vlm.models.base import BaseModelConfig, InputEmbeddingsFeatures, LanguageModelOutput
from mlx_vlm.models.cache import KVCache

from tests.live.mlx.following import Following


@dataclass
class ModelConfig(BaseModelConfig):
    """What is needed of `config.json`."""

    model_type: str
    folder: str
    eos_token_id: int
    max_position_embeddings: int


class LanguageModel(nn.Module):
    """No layers, and the cache of one."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.model_type = config.model_type
        self.layers: list[nn.Module] = []
        self.zero = mx.zeros((1,))
        self._following = Following(config.folder)

    def make_cache(self) -> list[KVCache]:
        return [KVCache()]

    def __call__(
        self, inputs: mx.array, cache: list[KVCache], inputs_embeds: mx.array | None = None, **_: Any
    ) -> LanguageModelOutput:
        ids = inputs if inputs_embeds is None else inputs_embeds[..., 0]
        return LanguageModelOutput(logits=self._following.logits(ids, cache[0]) + self.zero)


class Model(nn.Module):
    """The language model, and nothing to see with."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.model_type = config.model_type
        self.language_model = LanguageModel(config)

    @property
    def layers(self) -> list[nn.Module]:
        return self.language_model.layers

    def make_cache(self) -> list[KVCache]:
        return self.language_model.make_cache()

    def get_input_embeddings(self, input_ids: mx.array, *_: Any, **__: Any) -> InputEmbeddingsFeatures:
        return InputEmbeddingsFeatures(inputs_embeds=input_ids.astype(mx.float32)[..., None])

    def __call__(self, input_ids: mx.array, *_: Any, cache: list[KVCache], **__: Any) -> LanguageModelOutput:
        return self.language_model(input_ids, cache)

    def sanitize(self, weights: dict[str, mx.array]) -> dict[str, mx.array]:
        return {f"language_model.{name}": weight for name, weight in weights.items()}
