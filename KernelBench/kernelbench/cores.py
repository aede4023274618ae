"""The processor cores from which both sides launch work: apart from the oracle's, and the least disturbed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

MIN_CORES = 4
"""With fewer processor cores nobody is kept to one of them; one in so many is for launches."""


@cache
def launch_cores(device: str) -> tuple[int, ...]:
    """The processor cores from one of which both sides launch work; the oracle keeps to the others."""
    cores = sorted(os.sched_getaffinity(0))
    if device != "cuda" or len(cores) < MIN_CORES:
        return ()
    chosen = cores[-(len(cores) // MIN_CORES) :]
    siblings = set().union(*(_siblings(core) for core in chosen))
    os.sched_setaffinity(0, set(cores) - {*chosen, *siblings} or set(cores) - {*chosen})
    return tuple(chosen)


def quietest(cores: Sequence[int]) -> int | None:
    """The core on which a short loop runs fastest just now: what others do on the machine shows there."""
    if len(cores) < 2:
        return cores[0] if cores else None
    own = os.sched_getaffinity(0)
    try:
        return min(cores, key=_loop_s)
    finally:
        os.sched_setaffinity(0, own)


def _loop_s(core: int) -> float:
    os.sched_setaffinity(0, {core})
    marks = []
    for _ in range(4):
        marks.append(time.perf_counter())
        sum(range(4000))
    return min(after - before for before, after in pairwise(marks))


def _siblings(core: int) -> set[int]:
    """The threads of the core that a processor thread is on, where Linux says so: `7,15` or `6-7`."""
    try:
        text = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text("utf-8")
    except OSError:
        return set()
    spans = [part.partition("-") for part in text.strip().split(",")]
    return {each for first, _, last in spans for each in range(int(first), int(last or first) + 1)}
