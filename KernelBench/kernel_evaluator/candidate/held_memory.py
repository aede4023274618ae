"""What PyTorch's allocator holds of a device for a model, so that it can be taken anew in one piece.

In the process that runs the model: it says nothing to anybody, and a candidate may do as it likes.
"""

from __future__ import annotations

from contextlib import suppress

import torch


class HeldMemory:
    """The most that the allocator held for a call or a batch of one model. Does nothing on a CPU."""

    def __init__(self, device: str) -> None:
        self._is_on_gpu = device == "cuda"
        self.most_bytes = 0

    def note(self) -> None:
        """Note the most that was held since it was asked last."""
        if self._is_on_gpu:
            with suppress(RuntimeError):  # an allocator of the candidate's own
                self.most_bytes = max(self.most_bytes, torch.cuda.max_memory_reserved())
                torch.cuda.reset_peak_memory_stats()

    def give_back(self) -> None:
        """Give back what is cached."""
        if self._is_on_gpu:
            torch.cuda.empty_cache()

    def pass_over(self) -> None:
        """Give memory back and note nothing of it: a call in float64 holds more than what is timed."""
        self.give_back()
        if self._is_on_gpu:
            torch.cuda.reset_peak_memory_stats()

    def forget(self) -> None:
        """Give memory back, and begin anew with another model."""
        self.pass_over()
        self.most_bytes = 0

    def take_anew(self, room: int) -> None:
        """Hold in one piece all that was ever held for a call or a batch, and `room` bytes more.

        So both sides' blocks lie in the same order beside each other; apart, they lie as chance has it.
        """
        self.give_back()
        if self._is_on_gpu:
            with suppress(RuntimeError):  # too little of it, or an allocator of the candidate's own
                missing = self.most_bytes - torch.cuda.memory_reserved()
                torch.empty(max(missing, 0) + room, dtype=torch.uint8, device="cuda")
                torch.cuda.reset_peak_memory_stats()
