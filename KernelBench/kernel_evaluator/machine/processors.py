"""How many processors this process may keep busy: a container's quota counts, not what the host has."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path

CGROUPS, OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def available(cgroups: Path = CGROUPS, own: Path = OWN_GROUP) -> float:
    """Give the processors that may be used at once: those of the affinity, or a quota that is smaller.

    A group that uses up its quota is stopped as a whole for what is left of a tenth of a second, with what is
    timed in it. Quotas are those of this group and of all above it, in either version of control groups.
    """
    quotas = [_quota(folder) for folder in group_folders("cpu", cgroups, own)]
    return min(float(len(os.sched_getaffinity(0))), *quotas)


def for_models() -> int:
    """The threads that a model gets on a CPU: what OMP_NUM_THREADS says, else all processors but one.

    That one is the oracle's: where a model has threads on all of them, they wait for each other and for it.
    """
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if said.isdecimal() and int(said) else max(1, int(available()) - 1)


def _quota(folder: Path) -> float:
    """The processors that a group may use; without end where it has no quota."""
    with suppress(OSError, ValueError):
        quota, period = (folder / "cpu.max").read_text("ascii").split()
        return math.inf if quota == "max" else int(quota) / int(period)
    with suppress(OSError, ValueError):
        microseconds = int((folder / "cpu.cfs_quota_us").read_text("ascii"))
        if microseconds > 0:
            return microseconds / int((folder / "cpu.cfs_period_us").read_text("ascii"))
    return math.inf


def group_folders(controller: str, cgroups: Path, own: Path) -> list[Path]:
    """The groups that bound this process: that of version 2, and that of version 1 with a controller."""
    try:
        lines = [line.split(":", 2) for line in own.read_text("utf-8").splitlines()]
    except OSError:
        lines = []
    folders = [cgroups]
    for _, controllers, named in lines:
        if not controllers or controller in controllers.split(","):
            base = cgroups / controllers
            folder = base / named.lstrip("/")
            folders += [base, *(each for each in (folder, *folder.parents) if each.is_relative_to(base))]
    return folders
