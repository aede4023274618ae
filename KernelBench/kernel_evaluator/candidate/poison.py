"""Garbage in free memory for the length of a call. Runs in the process that it spoils; decides nothing."""

from __future__ import annotations

import ctypes

import torch

_M_PERTURB = -6


class Poison:
    """Fill free memory with garbage, so that an output nobody wrote cannot look right."""

    def __init__(self, device: str, nbytes: int) -> None:
        self.device, self.nbytes = device, nbytes

    def __enter__(self) -> None:
        if self.device == "cpu":
            ctypes.CDLL(None).mallopt(_M_PERTURB, 0x80 if self.nbytes else 0)
        elif self.nbytes:
            torch.full((-(-self.nbytes // 4),), torch.nan, device=self.device)

    def __exit__(self, *_: object) -> None:
        if self.device == "cpu":
            ctypes.CDLL(None).mallopt(_M_PERTURB, 0)
