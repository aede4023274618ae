"""One-pass reductions for large outputs on a GPU, in Triton. The slower forms in `compare` say the same."""

# ruff: noqa: ANN001, ANN202, PLR0124 (Triton's dialect: no annotations, and NaN differs from itself)
from __future__ import annotations

from typing import Any

import torch

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

_BLOCK = 2048
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)

if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]
    def _worst_kernel(  # type: ignore[no-untyped-def]
        expected, found, allowances, errors, indices, count, ROUNDS: tl.constexpr, BLOCK: tl.constexpr
    ):
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = at < count
        e = tl.load(expected + at, mask=inside, other=0.0).to(tl.float32)
        f = tl.load(found + at, mask=inside, other=0.0).to(tl.float32)
        same = (e == f) | ((e != e) & (f != f))
        right, given = e.to(tl.float64), f.to(tl.float64)
        allowed = tl.load(allowances) + tl.load(allowances + 1) * tl.abs(right)
        if ROUNDS:
            magnitude = (e.to(tl.int32, bitcast=True) >> 23) & 0xFF
            allowed = tl.maximum(allowed, tl.load(allowances + 2 + magnitude))
        # A division in float64 takes longer, and longest where nothing is wrong.
        error = tl.abs(given - right) * (1.0 / allowed.to(tl.float32)).to(tl.float64)
        error = tl.where(error != error, float("inf"), error)
        error = tl.where(same, 0.0, error)
        worst, where = tl.max(error, axis=0, return_indices=True)
        tl.store(errors + tl.program_id(0), worst)
        tl.store(indices + tl.program_id(0), where)

    @triton.jit  # type: ignore[untyped-decorator]
    def _square_kernel(  # type: ignore[no-untyped-def]
        values, sums, strays, count, BLOCK: tl.constexpr
    ):
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(values + at, mask=at < count, other=0.0).to(tl.float64)
        finite = tl.abs(x) < float("inf")
        tl.store(sums + tl.program_id(0), tl.sum(tl.where(finite, x * x, 0.0), axis=0))
        tl.store(strays + tl.program_id(0), tl.sum(tl.where(finite, 0, 1), axis=0))


def applies_to(*tensors: torch.Tensor) -> bool:
    """Whether the tensors are of a kind that the one-pass forms take."""
    return triton is not None and all(
        t.is_cuda and t.dtype in _DTYPES and t.is_contiguous() and t.numel() > 0 for t in tensors
    )


def worst_at(
    expected: torch.Tensor,
    found: torch.Tensor,
    absolute: float,
    relative: float,
    rounding: torch.Tensor | None = None,
) -> int:
    """Give the flat index of the largest |found - expected| / (absolute + relative |expected|).

    Where `rounding` allows more for an element's magnitude, that is what it may be off by. Equal infinities
    and NaN in the same place are no error; misplaced ones are an infinite error. Of errors within 1e-6 of
    each other it is any.
    """
    errors, indices = _partial(expected, torch.float64), _partial(expected, torch.int32)
    said = torch.tensor([absolute, relative], dtype=torch.float64)
    allowances = (said if rounding is None else torch.cat([said, rounding])).to(expected.device)
    arguments = (expected, found, allowances, errors, indices, expected.numel())
    _launch(_worst_kernel, expected, *arguments, ROUNDS=rounding is not None)
    block = int(errors.argmax().item())
    return block * _BLOCK + int(indices[block].item())


def square_sum(tensor: torch.Tensor) -> tuple[float, int]:
    """Give the sum of squares of the finite elements, and how many are not finite."""
    sums, strays = _partial(tensor, torch.float64), _partial(tensor, torch.int32)
    _launch(_square_kernel, tensor, tensor, sums, strays, tensor.numel())
    return float(sums.sum(dtype=torch.float64).item()), int(strays.sum().item())


def _partial(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(-(-tensor.numel() // _BLOCK), dtype=dtype, device=tensor.device)


def _launch(kernel: Any, like: torch.Tensor, *arguments: Any, **chosen: bool) -> None:
    kernel[(-(-like.numel() // _BLOCK),)](*arguments, **chosen, BLOCK=_BLOCK, num_warps=8)
