"""The memory that the oracle shares with both sides: buffers of the same names and sizes, apart for each."""

from __future__ import annotations

from kernel_evaluator.candidate import memory
from kernel_evaluator.stand.sides import REFERENCE_TIMEOUT_S, Side


class Buffers:
    """A pair of buffers for each name: the reference's, which maps it at once, and the candidate's."""

    def __init__(self, reference: Side, device: str, *, fallback: bool) -> None:
        self._side, self._device, self.is_fallback = reference, device, fallback
        self.reference = reference.buffers
        self.candidate: dict[str, memory.SharedBuffer] = {}

    def share(self, name: str, nbytes: int) -> None:
        """Have both buffers of a name hold so many bytes; those that are too small are made anew."""
        if name in self.reference and self.reference[name].tensor.numel() >= nbytes:
            return
        for buffers in (self.reference, self.candidate):
            if name in buffers:
                buffers.pop(name).close()
            buffers[name] = memory.create(nbytes, self._device, fallback=self.is_fallback)
        self._side.hand_over(name, REFERENCE_TIMEOUT_S)

    def close(self) -> None:
        """Give all memory back."""
        for buffers in (self.reference, self.candidate):
            while buffers:
                buffers.popitem()[1].close()
