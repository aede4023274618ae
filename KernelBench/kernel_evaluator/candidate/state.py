"""A model's parameters and buffers: what they are, and which of them take the reference's values.

Copies nothing itself.
"""

from __future__ import annotations

import torch

from kernel_evaluator.candidate.outputs import dtype_name


def match_state(
    state: dict[str, torch.Tensor], wanted: dict[str, tuple[str, tuple[int, ...]]]
) -> dict[str, torch.Tensor] | None:
    """What takes the reference's values, under its names: by name, else by position; None where unlike."""
    found = {name: (dtype_name(tensor.dtype), tuple(tensor.shape)) for name, tensor in state.items()}
    if all(found.get(name) == facts for name, facts in wanted.items()):
        return {name: state[name] for name in wanted}
    if list(found.values()) == list(wanted.values()):
        return dict(zip(wanted, state.values(), strict=True))
    return None


def describe_state(state: dict[str, torch.Tensor]) -> str:
    """Say name, dtype and shape of every parameter and buffer, as a Python literal."""
    return repr([[name, dtype_name(tensor.dtype), list(tensor.shape)] for name, tensor in state.items()])
