"""The input sets of a deal: what the oracle drew, where both sides find it, and whether it is still that."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

from kernel_evaluator import secret_draws
from kernel_evaluator.candidate import memory
from kernel_evaluator.candidate.frames import Op
from kernel_evaluator.numerics import compare
from kernel_evaluator.problems.inputs import InputLeaf
from kernel_evaluator.stand.buffers import Buffers
from kernel_evaluator.stand.device import Device
from kernel_evaluator.stand.sides import Side, problem_at_work

_MUCH_BYTES = 256 << 20
_WRITINGS, _MOST_BIAS = 5, 0.25
_USUAL_BIAS, _SURVEYS = 0.02, 3


class InputSets:
    """So many input sets as `count`, each of `nbytes` bytes, at the same addresses on either side.

    `writing_bias_ms`: by so many milliseconds it takes longer to write a call's inputs to the candidate than
    to the reference. Where they lie `swapped`, the last two axes of each have changed places in memory.
    """

    def __init__(
        self, leaves: list[InputLeaf], buffers: Buffers, device: Device, *, swapped: bool = False
    ) -> None:
        self._leaves, self._buffers, self._device = leaves, buffers, device
        self._is_swapped = swapped
        self._leaf_offsets, self.nbytes = memory.layout([leaf.nbytes for leaf in leaves])
        self.writing_bias_ms = 0.0
        self.hold(1)

    def hold(self, count: int) -> None:
        """Have memory for so many sets on both sides, elsewhere where there was too little."""
        self.count = count
        self._buffers.share("inputs", self.nbytes * count)
        self.forget_all()

    def said(self) -> list[list[dict[str, Any]]]:
        """What INPUTS says: for each set, where its tensors lie."""
        return [
            [
                {"scalar": leaf.scalar}
                if leaf.dtype is None
                else {
                    "offset": offset,
                    "dtype": str(leaf.dtype).removeprefix("torch."),
                    "shape": leaf.shape,
                    "swapped": self._is_swapped,
                }
                for offset, leaf in zip(self._offsets(at), self._leaves, strict=True)
            ]
            for at in range(self.count)
        ]

    def show(self, side: Side, timeout_s: float) -> None:
        """Tell a candidate where its inputs lie."""
        side.hand_over("inputs", timeout_s)
        side.ask(Op.INPUTS, timeout_s, sets=self.said())

    def put(self, at: int, draw: Callable[[], list[Any]], *, secretly: bool = False) -> None:
        """Draw an input set and keep it; unless `secretly`, show it to both sides."""
        self.forget(at)  # the memory is needed for the next
        with problem_at_work():
            self._drawn[at] = draw()
        if not secretly:
            for buffers in (self._buffers.reference, self._buffers.candidate):
                self.write(buffers["inputs"], at)

    def forget(self, at: int) -> None:
        """Let go of what was drawn for a set."""
        self._drawn[at] = []

    def forget_all(self) -> None:
        """Let go of all that was drawn."""
        self._drawn: list[list[Any]] = [[] for _ in range(self.count)]

    def write(self, arena: memory.SharedBuffer, at: int) -> None:
        """Write what was drawn for an input set into a side's buffer."""
        for offset, leaf, value in zip(self._offsets(at), self._leaves, self._drawn[at], strict=True):
            if leaf.dtype is not None:
                arena.lying(offset, leaf.dtype, leaf.shape, swapped=self._is_swapped).copy_(value)

    def scramble(self, side: Side) -> None:
        """Overwrite a side's inputs, so that nothing can be computed from them any more."""
        arena = side.buffers["inputs"]
        if not arena.is_fallback:
            arena.tensor.fill_(0xFF)
            self._device.settle()

    def differ(self, at: int) -> bool:
        """Whether the two sides' copies of an input set are no longer the same."""
        ours, theirs = self._buffers.reference["inputs"], self._buffers.candidate["inputs"]
        theirs.refresh()
        return any(
            not compare.same_bits(
                ours.view(o, leaf.dtype, leaf.shape), theirs.view(o, leaf.dtype, leaf.shape)
            )
            for o, leaf in zip(self._offsets(at), self._leaves, strict=True)
            if leaf.dtype is not None
        )

    def changed(self, side: Side, at: int) -> bool:
        """Whether an input set of a side is no longer what the oracle wrote."""
        arena = side.buffers["inputs"]
        arena.refresh()
        return any(
            not compare.same_bits(value.contiguous(), arena.view(offset, leaf.dtype, leaf.shape))
            for offset, leaf, value in zip(self._offsets(at), self._leaves, self._drawn[at], strict=True)
            if leaf.dtype is not None
        )

    def survey(self, calls: int) -> None:
        """See how much longer it takes to write so many calls' inputs to the candidate than to the reference.

        Where their memory lies shows in gigabytes: by a fifth in one case. What is unusual is measured again,
        for a place stays and noise does not. For before a candidate has the memory.
        """
        self.writing_bias_ms = 0.0
        if not self._device.is_gpu or self.nbytes * calls < _MUCH_BYTES:
            return
        unusual = []
        for _ in range(_SURVEYS):
            reference_ms, candidate_ms = self._times_of_writing(calls)
            later_ms = candidate_ms - reference_ms
            if abs(later_ms) <= _USUAL_BIAS * reference_ms:
                self.writing_bias_ms = later_ms / calls
                return
            most = _MOST_BIAS * reference_ms
            unusual.append(max(-most, min(most, later_ms)))
        self.writing_bias_ms = statistics.median(unusual) / calls

    def _times_of_writing(self, calls: int) -> tuple[float, float]:
        """The least milliseconds that it takes to write the inputs of so many calls to either side."""
        arenas = {
            "candidate": self._buffers.candidate["inputs"],
            "reference": self._buffers.reference["inputs"],
        }
        spent = dict.fromkeys(arenas, math.inf)
        for name in secret_draws.in_any_order([*arenas] * _WRITINGS):
            spent[name] = min(spent[name], self._time_writing(arenas[name], calls))
        return spent["reference"], spent["candidate"]

    def _time_writing(self, arena: memory.SharedBuffer, calls: int) -> float:
        self._device.settle()
        start = time.perf_counter()
        for at in range(calls):
            self.write(arena, at)
        self._device.settle()
        return (time.perf_counter() - start) * 1e3

    def _offsets(self, at: int) -> list[int]:
        return [at * self.nbytes + offset for offset in self._leaf_offsets]
