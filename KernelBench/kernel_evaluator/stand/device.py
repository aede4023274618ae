"""The device that both sides share, as the oracle's own process sees it."""

from __future__ import annotations

import math
import time

import torch

_QUICK_S, _QUICK_IN_A_ROW = 2e-4, 3
_QUIET_WITHIN_S, _QUIET_TRIES = 0.05, 50


class Device:
    """A GPU (`kind` is cuda) or the processor (cpu). `is_alone` is None until `survey` has looked."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.is_alone: bool | None = None
        self.total_bytes: float = torch.cuda.mem_get_info()[1] if self.is_gpu else math.inf
        self._tiny = torch.zeros(1, device=kind)

    @property
    def is_gpu(self) -> bool:
        """Whether work runs beside the processor's, and has to be waited for."""
        return self.kind == "cuda"

    def settle(self) -> None:
        """Wait until the oracle's own work on the device is done."""
        if self.is_gpu:
            torch.cuda.synchronize()

    def touch(self) -> float:
        """Do next to nothing on the device; seconds until it is done."""
        if not self.is_gpu:
            return 0.0
        start = time.perf_counter()
        self._tiny.add_(1)
        self.settle()
        return time.perf_counter() - start

    def is_quick(self) -> bool:
        """Whether next to nothing is done at once: nobody else's kernels run."""
        return self.touch() < _QUICK_S

    def falls_quiet(self) -> bool:
        """Whether nobody else's kernels run before long: tiny operations in a row are quick."""
        give_up = time.perf_counter() + _QUIET_WITHIN_S
        tries = in_a_row = 0
        while in_a_row < _QUICK_IN_A_ROW:
            if tries >= _QUIET_TRIES and time.perf_counter() > give_up:
                return False
            tries += 1
            in_a_row = in_a_row + 1 if self.is_quick() else 0
        return True

    def survey(self) -> None:
        """See whether others use the device, while no kernel of ours does."""
        self.is_alone = self.falls_quiet()

    def give_back(self) -> None:
        """Let go of what the oracle's own process has cached: others have no other memory."""
        if self.is_gpu:
            torch.cuda.empty_cache()

    def free_bytes(self) -> float:
        """Bytes of a GPU that nobody holds; without end on a CPU."""
        return torch.cuda.mem_get_info()[0] if self.is_gpu else math.inf

    def used_gb(self) -> float | None:
        """What everything on a GPU holds now, both sides and the oracle together, in GiB."""
        if not self.is_gpu:
            return None
        free, total = torch.cuda.mem_get_info()
        return (total - free) / 2**30
