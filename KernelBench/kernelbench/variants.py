"""Other starting values for a model: biases that are not zero and scales that are not one.

A kernel that leaves out an affine step which happens to do nothing at first is found out by these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def init(variant: str) -> Iterator[None]:
    """Within this, `plain` leaves torch's initialisers alone; `affine` draws ones and zeros anew."""
    if variant == "plain":
        yield
        return
    if variant != "affine":
        raise ValueError(f"variant must be plain or affine, got {variant!r}")
    ones, zeros = torch.nn.init.ones_, torch.nn.init.zeros_
    torch.nn.init.ones_ = lambda tensor: torch.nn.init.uniform_(tensor, 0.5, 1.5)
    torch.nn.init.zeros_ = lambda tensor: torch.nn.init.uniform_(tensor, -0.5, 0.5)
    try:
        yield
    finally:
        torch.nn.init.ones_, torch.nn.init.zeros_ = ones, zeros
