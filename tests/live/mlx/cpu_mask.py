"""mlx-vlm's structured output where there is no Metal: its kernel that forbids tokens, done by the CPU."""

from __future__ import annotations

import math

import mlx.core as mx
from mlx_vlm import structured


def install() -> None:
    """Takes the kernel's place, unless the kernel can run."""
    if not mx.metal.is_available():
        structured._apply_llguidance_mask = _allowed_logits


def _allowed_logits(logits: mx.array, mask: mx.array) -> mx.array:
    """*logits*, (batch, vocabulary), of the tokens whose bit is set in *mask*, (batch, 32-bit words)."""
    logits = logits.reshape(-1, logits.shape[-1])
    tokens = mx.arange(logits.shape[1])
    bits = mx.right_shift(mask.reshape(logits.shape[0], -1)[:, tokens // 32], tokens % 32) & 1
    return mx.where(bits == 1, logits, -math.inf)
