"""How much memory there is for what runs here: a container's bound counts, not what the host has."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from kernel_evaluator.machine.processors import CGROUPS, OWN_GROUP, group_folders

BUILDS_SHARE = JUDGED_SHARE = 0.4
"""What may be used by all builds at once, and by all kernels that are judged at once. The rest is ours."""


def total_bytes(cgroups: Path = CGROUPS, own: Path = OWN_GROUP) -> int:
    """Give the machine's memory, or the bound of a control group that is smaller, of version 2 or 1."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for folder in group_folders("memory", cgroups, own):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):
                found = min(found, int((folder / name).read_text("ascii")))  # "max" is no number
    return found


def bound_gb(asked_gb: float, share: float, at_once: int) -> float:
    """The most that one of several may use that run at once, so that there is enough for all."""
    return min(asked_gb, total_bytes() * share / at_once / 2**30)
