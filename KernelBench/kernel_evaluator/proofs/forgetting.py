"""A twin that forgets: what lies further back than an eighth of a sequence counts for nothing.

A recurrence whose state fades can be cut into pieces, each warmed up on the piece before, so that they run
side by side. Where that is right a long chain of steps need not be gone through, and a last state needs the
last steps alone. Runs references only; never sees a submission.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

PIECES = 8
LEAST = 64
"""Shorter sequences are left alone."""

_LAYERS = frozenset({torch.gru, torch.lstm, torch.rnn_tanh, torch.rnn_relu})


class Forgetting(TorchFunctionMode):
    """Within this recurrent layers remember a piece back. `pieces` and `calls` say how many there were."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces = self.calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        if func in _LAYERS and isinstance(args[3], bool):  # else sequences of several lengths
            given = _in_pieces(func, *args)
            if given is not None:
                self.pieces += PIECES
                return given
        return func(*args, **(kwargs or {}))


def _in_pieces(func: Callable[..., Any], x: torch.Tensor, hx: Any, weights: Any, *how: Any) -> Any:
    """Run a recurrent layer on pieces, each between its neighbours; outputs and last states as it gives them.

    `how` ends with whether both directions are run, and whether the batch comes first.
    """
    is_both, batch_first = how[-2:]
    axis = 1 if batch_first else 0
    length = x.shape[axis]
    if length < LEAST:
        return None
    piece = length // PIECES
    starts = [at * piece for at in range(PIECES)]
    ends = [*starts[1:], length]
    outputs, states = [], []
    for start, end in zip(starts, ends, strict=True):
        before, after = max(0, start - piece), min(length, end + piece) if is_both else end
        output, *state = func(x.narrow(axis, before, after - before), hx, weights, *how)
        outputs.append(output.narrow(axis, start - before, end - start))
        states.append(state)
    last = [
        _last_state(first, final, is_both=is_both)
        for first, final in zip(*(states[0], states[-1]), strict=True)
    ]
    return (torch.cat(outputs, axis), *last)


def _last_state(first: torch.Tensor, final: torch.Tensor, *, is_both: bool) -> torch.Tensor:
    """Last states of all layers: that of the way back comes from the first piece."""
    if not is_both:
        return final
    last = final.clone()
    last[1::2] = first[1::2]
    return last


def forget_steps(
    run: Callable[[list[Any]], list[torch.Tensor]],
    inputs: list[Any],
    expected: list[torch.Tensor],
    calls: int,
) -> list[torch.Tensor] | None:
    """What a forward gives late in a sequence that it goes through step by step, its first half forgotten.

    It does where it makes as many `calls` of torch as an axis has elements, which inputs and outputs share,
    and where outputs right after the first half hang on it, unlike those of a batch. None where there is no
    such axis. The first half is a copy of the second; outputs count from an eighth after it on.
    """
    tensors = [each for each in inputs if isinstance(each, torch.Tensor) and each.is_floating_point()]
    for axis in (0, 1):
        lengths = {each.shape[axis] for each in tensors if each.dim() > axis + 1}
        for length in lengths:
            is_walked = LEAST <= length <= calls
            outputs = [
                at for at, each in enumerate(expected) if each.dim() > axis and each.shape[axis] == length
            ]
            if not is_walked or not outputs:
                continue
            given = run([_second_half_twice(each, axis, length) for each in inputs])
            half, piece = length // 2, length // PIECES
            next_to_it = [
                (each[at].narrow(axis, half, piece) for each in (given, expected)) for at in outputs
            ]
            if all(torch.equal(*both) for both in next_to_it):
                continue
            for at in outputs:
                early = given[at].narrow(axis, 0, half + piece)
                early.copy_(expected[at].narrow(axis, 0, half + piece))
            return given
    return None


def _second_half_twice(value: Any, axis: int, length: int) -> Any:
    if not isinstance(value, torch.Tensor) or value.dim() <= axis + 1 or value.shape[axis] != length:
        return value
    given = value.clone()
    half = length // 2
    given.narrow(axis, 0, half).copy_(value.narrow(axis, length - half, half))
    return given
