"""A twin whose attention is linear: weights that are nearly alike are taken to first order.

Where scores scatter little, an average over all keys follows from their mean and from how they vary together
with the values, which takes no score of a query and a key. Runs references only; never sees a submission.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

LEAST = 256
"""With fewer keys nothing is gained."""

MASKED = 1e4
"""A score as large is a mask's."""


def _linear(scores: torch.Tensor) -> torch.Tensor | None:
    """Weights to first order about those of the mean query, as many as scores; masked ones stay nothing.

    Each key's mean is of the queries that see it, so that with a causal mask sums run along the sequence.
    """
    if scores.dim() < 3 or min(scores.shape[-2:]) < LEAST:
        return None
    scores = scores.float()
    is_masked = scores <= -MASKED
    seen = (~is_masked).sum(-2, keepdim=True).clamp_(min=1)
    base = scores.masked_fill(is_masked, 0).sum(-2, keepdim=True) / seen
    weights = base.expand_as(scores).masked_fill(is_masked, -math.inf).softmax(-1)
    off = (scores - base).masked_fill_(is_masked, 0)
    off -= (off * weights).sum(-1, keepdim=True)
    return off.add_(1).mul_(weights)


def _softmax(
    scores: torch.Tensor, dim: int | None = None, *_: Any, dtype: Any = None, **__: Any
) -> torch.Tensor | None:
    is_last = dim is not None and dim % scores.dim() == scores.dim() - 1
    weights = _linear(scores) if is_last and dtype in (None, scores.dtype) else None
    return None if weights is None else weights.to(scores.dtype)


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *how: Any, **named: Any
) -> torch.Tensor | None:
    weights = None if _is_asked(*how, *named.values()) else _weights(query, key)
    return None if weights is None else weights @ value


def _weights(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor | None:
    if min(query.shape[-2], key.shape[-2]) < LEAST:
        return None
    weights = _linear(query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]))
    return None if weights is None else weights.to(query.dtype)


def _is_asked(*how: Any) -> bool:
    """Whether anything is asked for beside: a mask, a scale of its own, dropout."""
    return any(isinstance(each, torch.Tensor) or bool(each) for each in how)


def _heads(  # noqa: PLR0913, PLR0917 (torch's own signature)
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: torch.Tensor | None,
    in_proj_bias: torch.Tensor | None,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: torch.Tensor,
    out_proj_bias: torch.Tensor | None,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    average_attn_weights: bool = True,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor | None] | None:
    """Attention of several heads, of tokens by batch by channels."""
    if in_proj_weight is None or query.dim() != 3 or not average_attn_weights:
        return None
    if _is_asked(bias_k, bias_v, add_zero_attn, training and dropout_p, key_padding_mask, attn_mask):
        return None
    biases = [None] * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
    query, key, value = (
        F.linear(each, weight, bias).view(*each.shape[:2], num_heads, -1).permute(1, 2, 0, 3)
        for each, weight, bias in zip((query, key, value), in_proj_weight.chunk(3), biases, strict=True)
    )
    weights = _weights(query, key)
    if weights is None:
        return None
    given = F.linear((weights @ value).permute(2, 0, 1, 3).flatten(2), out_proj_weight, out_proj_bias)
    return given, weights.mean(1) if need_weights else None


LINEAR_SOFTMAX: Mapping[Any, Callable[..., Any]] = {
    **dict.fromkeys((F.softmax, torch.softmax, torch.Tensor.softmax), _softmax),
    F.scaled_dot_product_attention: _attention,
    F.multi_head_attention_forward: _heads,
}
"""Attention over many keys, to first order."""
