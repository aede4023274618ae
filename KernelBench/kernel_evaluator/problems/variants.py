"""Other starting values for a model: biases that are not zero, scales that are not one, livelier weights.

A kernel that leaves out an affine step which happens to do nothing at first is found out by these, and one
that gives an earlier output where what goes in hardly shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

VARIANTS = ("plain", "affine", "lively")
"""Torch's own; ones and zeros drawn anew; and beside, weights so large that signals do not fade."""


@contextmanager
def init(variant: str) -> Iterator[None]:
    """Within this, torch's initialisers give the weights of a variant."""
    if variant not in VARIANTS:
        raise ValueError(f"variant must be one of {', '.join(VARIANTS)}, got {variant!r}")
    if variant == "plain":
        yield
        return
    own = torch.nn.init.ones_, torch.nn.init.zeros_, torch.nn.init.kaiming_uniform_
    kaiming = own[-1]
    torch.nn.init.ones_ = lambda tensor: torch.nn.init.uniform_(tensor, 0.5, 1.5)
    torch.nn.init.zeros_ = lambda tensor: torch.nn.init.uniform_(tensor, -0.5, 0.5)
    if variant == "lively":
        torch.nn.init.kaiming_uniform_ = lambda tensor, **_: kaiming(tensor, a=0)
    try:
        yield
    finally:
        torch.nn.init.ones_, torch.nn.init.zeros_, torch.nn.init.kaiming_uniform_ = own
