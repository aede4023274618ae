"""The processor cores from which both sides launch work, apart from the oracle's."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

MIN_CORES, MAX_CHOICE = 4, 8
"""With fewer processor cores nobody is kept to one of them; half are for launches, and no more than so many.

They are taken with their siblings, the threads of the same core, so that the oracle's work slows none. Other
guests of a host slow each for a while, on a busy host four of five at a time.
"""


@cache
def launch_cores(device: str) -> tuple[int, ...]:
    """The processor cores from one of which both sides launch work; the oracle keeps to the others."""
    cores = sorted(os.sched_getaffinity(0))
    if device != "cuda" or len(cores) < MIN_CORES:
        return ()
    most = min(len(cores) // 2, MAX_CHOICE)
    chosen: set[int] = set()
    for core in reversed(cores):
        together = chosen | {core} | _siblings(core) & set(cores)
        if len(together) <= most:
            chosen = together
    chosen = chosen or set(cores[-most:])
    os.sched_setaffinity(0, set(cores) - chosen)
    return tuple(sorted(chosen))


def _siblings(core: int) -> set[int]:
    """The threads of the core that a processor thread is on, where Linux says so: `7,15` or `6-7`."""
    try:
        text = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text("utf-8")
    except OSError:
        return set()
    spans = [part.partition("-") for part in text.strip().split(",")]
    return {each for first, _, last in spans for each in range(int(first), int(last or first) + 1)}
