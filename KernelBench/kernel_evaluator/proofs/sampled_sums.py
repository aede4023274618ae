"""A twin that sums one in eight elements only: means, norms, softmax, and the statistics of normalisations.

What comes before a sum need not be made for the others either. Runs references only; never sees a submission.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

STRIDE = 8
"""One in so many elements is summed."""

_LEAST = 64
"""Sums along shorter axes are left alone."""


def _thin(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor | None:
    """One in STRIDE along the longest of these axes; None where that is short."""
    axis = max(axes, key=lambda each: x.shape[each], default=None)
    if axis is None or x.shape[axis] < _LEAST or not x.is_floating_point():
        return None
    return x.movedim(axis, -1)[..., ::STRIDE].movedim(-1, axis)


def _reduced(func: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor | None:
    """A mean, a variance or a norm along the axes that are named, or along all."""
    at = 1 if func in _NORMS else 0
    named = kwargs.get("dim", args[at] if len(args) > at else None)
    if named is None or isinstance(named, bool):
        x, axes = x.reshape(-1), [0]
    else:
        axes = [named] if isinstance(named, int) else list(named)
    thin = _thin(x, axes)
    if thin is None:
        return None
    value: torch.Tensor = func(thin, *args, **kwargs)
    ratio = x.numel() / thin.numel()
    if func in _SUMS:
        return value * ratio
    if func in _NORMS:
        order = kwargs.get("p", kwargs.get("ord", args[0] if args else 2))
        power = float(order) if isinstance(order, (int, float)) else 2.0
        return value * ratio ** (1 / power) if power not in (0.0, math.inf, -math.inf) else None
    return value + math.log(ratio) if func in _LOG_SUMS else value


def _softmax(func: Any, x: torch.Tensor, dim: int | None = None, *_: Any, **__: Any) -> torch.Tensor | None:
    thin = _thin(x, [dim]) if dim is not None else None
    if thin is None or dim is None:
        return None
    log_sum = torch.logsumexp(thin.float(), dim, keepdim=True) + math.log(x.numel() / thin.numel())
    logs = x.float() - log_sum
    return (logs if func in _LOG_SOFTMAXES else logs.exp_()).to(x.dtype)


def _normalised(
    x: torch.Tensor,
    eps: float,
    *,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    centred: bool = True,
) -> torch.Tensor | None:
    """Normalise along the last axis; weight and bias are as broad as what they belong to."""
    thin = _thin(x, [-1])
    if thin is None:
        return None
    part = thin.float()
    mean = part.mean(-1, keepdim=True) if centred else torch.zeros((), device=x.device)
    scale = (part - mean).square().mean(-1, keepdim=True).add(eps).rsqrt()
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    return torch.addcmul(shift, x.float(), scale).to(x.dtype)


def _batch_norm(
    x: torch.Tensor,
    running_mean: Any,
    running_var: Any,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor | None:
    if not training:
        return None
    rows = x.movedim(1, 0)
    scale, shift = (each if each is None else each.view(-1, 1) for each in (weight, bias))
    given = _normalised(rows.reshape(len(rows), -1), eps, weight=scale, bias=shift)
    return None if given is None else given.view(rows.shape).movedim(0, 1)


def _instance_norm(
    x: torch.Tensor,
    running_mean: Any = None,
    running_var: Any = None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor | None:
    return _group_norm(x, x.shape[1], weight, bias, eps) if use_input_stats else None


def _group_norm(
    x: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor | None:
    given = _normalised(x.reshape(len(x), num_groups, -1), eps)
    if given is None:
        return None
    given = given.view(x.shape)
    broad = [-1, *[1] * (x.dim() - 2)]
    given = given if weight is None else given * weight.view(broad)
    return given if bias is None else given + bias.view(broad)


def _layer_norm(
    x: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float | None = 1e-5,
) -> torch.Tensor | None:
    flat = x.reshape(*x.shape[: x.dim() - len(normalized_shape)], -1)
    scale, shift = (each if each is None else each.reshape(-1) for each in (weight, bias))
    given = _normalised(flat, eps or 0.0, weight=scale, bias=shift)
    return None if given is None else given.view(x.shape)


def _rms_norm(
    x: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> torch.Tensor | None:
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    flat = x.reshape(*x.shape[: x.dim() - len(normalized_shape)], -1)
    scale = weight if weight is None else weight.reshape(-1)
    given = _normalised(flat, eps, weight=scale, centred=False)
    return None if given is None else given.view(x.shape)


def _pooled(func: Any, x: torch.Tensor, output_size: Any) -> torch.Tensor | None:
    """A pooling that averages each plane."""
    axes = _POOLS[func]
    sizes = [output_size] if isinstance(output_size, int) else list(output_size)
    if set(sizes) != {1}:
        return None
    thin = _thin(x.flatten(-axes), [-1])
    return None if thin is None else thin.mean(-1).view(*x.shape[:-axes], *[1] * axes)


_SUMS = frozenset({torch.sum, torch.Tensor.sum})
_LOG_SUMS = frozenset({torch.logsumexp, torch.Tensor.logsumexp})
_NORMS = frozenset({torch.norm, torch.Tensor.norm, torch.linalg.norm, torch.linalg.vector_norm})
_OTHERS = frozenset({torch.mean, torch.Tensor.mean, torch.var, torch.Tensor.var, torch.std, torch.Tensor.std})
_LOG_SOFTMAXES = frozenset({F.log_softmax, torch.log_softmax, torch.Tensor.log_softmax})
_POOLS = {F.adaptive_avg_pool1d: 1, F.adaptive_avg_pool2d: 2, F.adaptive_avg_pool3d: 3}
_SOFTMAXES = _LOG_SOFTMAXES | {F.softmax, torch.softmax, torch.Tensor.softmax}

SAMPLED_SUMS: Mapping[Any, Callable[..., Any]] = {
    **{func: partial(_reduced, func) for func in _SUMS | _LOG_SUMS | _NORMS | _OTHERS},
    **{func: partial(_softmax, func) for func in _SOFTMAXES},
    **{func: partial(_pooled, func) for func in _POOLS},
    F.batch_norm: _batch_norm,
    F.instance_norm: _instance_norm,
    F.group_norm: _group_norm,
    F.layer_norm: _layer_norm,
    F.rms_norm: _rms_norm,
}
"""Sums that take one in STRIDE elements."""
