"""A model's output with less rounding: the same call without TF32, or in float64. For references only."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def without_tf32() -> Iterator[None]:
    """Leave TF32 out for a while: the reference's own rounding is measured against this."""
    before = (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


def run_exactly(model: torch.nn.Module, inputs: list[Any], dtype: torch.dtype) -> Any:
    """Run a copy of the model in float64, and round what comes out to `dtype`.

    Raises RuntimeError or the like where the model insists on an element type of its own.
    """
    output = copy.deepcopy(model).double()(*[_widened(value) for value in inputs])
    return _rounded(output, dtype)


def _widened(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _rounded(output: Any, dtype: torch.dtype) -> Any:
    if isinstance(output, torch.Tensor):
        return output.to(dtype) if output.is_floating_point() else output
    if isinstance(output, dict):
        return {key: _rounded(value, dtype) for key, value in output.items()}
    return type(output)(_rounded(value, dtype) for value in output)
