"""Seeding, for the devices that are in use here.

`torch.manual_seed` also prepares devices that no process here opens, at a millisecond a call, and inputs are
drawn hundreds of times a kernel.
"""

from __future__ import annotations

import torch


def seed_all(seed: int) -> None:
    """Seed the CPU's generator, and those of the GPUs where they are open, as `torch.manual_seed` would."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)
