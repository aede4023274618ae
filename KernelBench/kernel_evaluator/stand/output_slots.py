"""The slots that outputs are delivered to, and how the oracle reads them whatever order they lie in."""

from __future__ import annotations

import torch

from kernel_evaluator.candidate import memory
from kernel_evaluator.candidate.frames import MAX_LEAVES, Leaf
from kernel_evaluator.stand.buffers import Buffers
from kernel_evaluator.stand.device import Device
from kernel_evaluator.stand.sides import Side

MAX_SLOTS, SLOTS_BYTES = 16, 1 << 28
"""So many outputs may be delivered at once, and one that is larger alone."""

COPIED_BYTES = 4 << 30
"""Copies of outputs take at most so much."""


class OutputSlots:
    """Memory for `count` outputs of `nbytes` each, with the `leaves` and `structure` of the reference's."""

    def __init__(self, leaves: tuple[Leaf, ...], structure: str, buffers: Buffers, device: Device) -> None:
        self.leaves, self.structure, self._device = leaves, structure, device
        self._offsets, self.nbytes = memory.layout([leaf_bytes(leaf) for leaf in leaves])
        affordable = 1 if buffers.is_fallback else SLOTS_BYTES // max(self.nbytes, 1)
        self.count = max(1, min(MAX_SLOTS, affordable, MAX_LEAVES // max(len(leaves), 1)))
        buffers.share("outputs", self.nbytes * self.count)

    def slot(self, number: int) -> list[int]:
        """Where the tensors of an output go in a slot of the buffer for outputs."""
        return [number * self.nbytes + offset for offset in self._offsets]

    def read(self, side: Side, *, kept: bool = False) -> list[torch.Tensor]:
        """Give what a side delivered to the first slot, row-major: copies if `kept`, else views if it can."""
        arena = side.buffers["outputs"]
        arena.refresh()
        self._device.settle()
        return self._lying_in(arena, side, 0, kept=kept)

    def keep(self, side: Side, count: int) -> list[list[torch.Tensor]]:
        """Copy what a side delivered last to so many slots, at once: what is written later goes unseen.

        One that fills much of the device stays where it is: no other is taken of its batch, and what could
        still write it would have to run on the device, where `deliver_undisturbed` waits for it.
        """
        if count == 1:
            kept = [self.read(side, kept=self.nbytes <= COPIED_BYTES)]
        else:
            arena = side.buffers["outputs"]
            arena.refresh()
            copied = memory.SharedBuffer(arena.tensor[: count * self.nbytes].clone(), -1)
            kept = [self._lying_in(copied, side, number) for number in range(count)]
        self._device.settle()
        return kept

    def _lying_in(
        self, arena: memory.SharedBuffer, side: Side, number: int, *, kept: bool = False
    ) -> list[torch.Tensor]:
        said = side.delivered[number * len(self.leaves) :]
        found = []
        for at, (leaf, offset) in enumerate(zip(self.leaves, self.slot(number), strict=True)):
            order = said[at].order if at < len(said) else ()
            if len(order) != len(leaf.shape):
                order = tuple(range(len(leaf.shape)))
            lying = arena.view(offset, getattr(torch, leaf.dtype), tuple(leaf.shape[each] for each in order))
            ordered = lying.permute(sorted(range(len(order)), key=order.__getitem__))
            found.append(
                ordered.clone(memory_format=torch.contiguous_format) if kept else ordered.contiguous()
            )
        return found


def leaf_bytes(leaf: Leaf) -> int:
    """Bytes of an output."""
    return torch.Size(leaf.shape).numel() * int(getattr(torch, leaf.dtype).itemsize)
