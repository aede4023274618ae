"""How many processors this process may keep busy: a container's quota counts, not what the host has."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def available(cgroups: Path = _CGROUPS, own: Path = Path("/proc/self/cgroup")) -> float:
    """Give the processors that may be used at once: those of the affinity, or a quota that is smaller.

    A group that uses up its quota is stopped as a whole for what is left of a tenth of a second, with what is
    timed in it. Quotas are read as version 2 of control groups has them, of this group and of all above it.
    """
    allowed = float(len(os.sched_getaffinity(0)))
    for folder in _folders(cgroups, own):
        with suppress(OSError, ValueError):
            quota, period = (folder / "cpu.max").read_text("ascii").split()
            if quota != "max":
                allowed = min(allowed, int(quota) / int(period))
    return allowed


def _folders(cgroups: Path, own: Path) -> list[Path]:
    try:
        lines = own.read_text("utf-8").splitlines()
    except OSError:
        return [cgroups]
    named = next((line[3:] for line in lines if line.startswith("0::")), "/")
    folder = cgroups / named.lstrip("/")
    return [each for each in (folder, *folder.parents) if each.is_relative_to(cgroups)]
