"""What a build may use, and whether it has used more: time, memory, and what it writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kernel_evaluator.walls import sandbox

_MAX_FILES = 20_000
_BLOCK_BYTES = 512
_MOST_WAITING = 3


@dataclass
class Waiting:
    """For how many seconds a build could not run, since what is timed beside it comes first."""

    seconds: float = 0.0
    _before: dict[int, float] = field(default_factory=dict)

    def note(self, keeper: int) -> None:
        """Add what the process that waited longest has waited since the last time."""
        now = {pid: sandbox.waited_seconds(pid) for pid in (sandbox.descendants(keeper) if keeper else [])}
        self.seconds += max((now[pid] - self._before.get(pid, 0.0) for pid in now), default=0.0)
        self._before = now


@dataclass(frozen=True, kw_only=True)
class BuildLimits:
    """Limits of one build, all its processes together."""

    timeout_s: float = 600.0
    memory_bytes: int = 16 << 30
    written_bytes: int = 4 << 30

    def broken(self, keeper: int, passed_s: float, waited_s: float, work: Path) -> str:
        """Say which limit a running build breaks; empty where it keeps to all.

        What it waited for a processor does not count, up to `_MOST_WAITING` times its time.
        """
        if passed_s - min(waited_s, _MOST_WAITING * self.timeout_s) > self.timeout_s:
            return f"the build took longer than {self.timeout_s:.0f} s"
        family = sandbox.descendants(keeper) if keeper else []
        if sandbox.held_bytes(family) > self.memory_bytes:
            return f"the build took more than {self.memory_bytes / 2**30:.1f} GiB of memory"
        sizes = list(_sizes(work))
        if sum(sizes) + sandbox.scratch_bytes(family) > self.written_bytes or len(sizes) > _MAX_FILES:
            return f"the build wrote more than {self.written_bytes / 2**30:.1f} GiB or {_MAX_FILES} files"
        return ""


def _sizes(folder: Path) -> Iterator[int]:
    """What each entry of a folder takes on disk; a build changes it meanwhile, so what is gone is skipped."""
    seen = 0
    for at, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            seen += 1
            if seen > _MAX_FILES + 1:
                return
            try:
                yield os.lstat(os.path.join(at, name)).st_blocks * _BLOCK_BYTES  # noqa: PTH118 (walks fast)
            except OSError:
                continue
